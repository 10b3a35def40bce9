#include "sym/assumed_multiples.h"

#include "sym/simplify.h"

namespace coil::sym {

AssumedMultiples::AssumedMultiples(ShapeEnv& env) : env_(env), before_(Simplifier::multiples(env)) {}

AssumedMultiples::~AssumedMultiples() { Simplifier::multiples(env_) = std::move(before_); }

}  // namespace coil::sym
