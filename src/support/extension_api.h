// What libraries from outside may call and derive from (compiler/extension.h): everything else is hidden.
#pragma once

#define COIL_EXTENSION_API __attribute__((visibility("default")))
