// The headers that every unit test uses, compiled once.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
