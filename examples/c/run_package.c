/* Runs a package on a file of inputs:   run_package MODEL.coil IN.safetensors OUT.safetensors
 *
 * Build against an installed or built Coil, with nothing else:
 *   gcc -std=c11 -Iinclude examples/c/run_package.c -Lbuild/lib -lcoil_runtime -Wl,-rpath,build/lib -o run_package */
#include <coil/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "error: %s\n", coil_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s MODEL.coil IN.safetensors OUT.safetensors\n", argv[0]);
    return 2;
  }
  coil_model* model = coil_model_load(argv[1]);
  coil_file* file = model ? coil_file_open(argv[2]) : NULL;
  coil_context* context = file ? coil_context_create(model) : NULL;
  if (!context) return failed();

  size_t input_count, output_count;
  const coil_port* in = coil_model_inputs(model, &input_count);
  const coil_port* out = coil_model_outputs(model, &output_count);
  coil_tensor* inputs = calloc(input_count + 1, sizeof *inputs);
  coil_tensor* outputs = calloc(output_count + 1, sizeof *outputs);
  const char** names = calloc(output_count + 1, sizeof *names);
  if (!inputs || !outputs || !names) return 1;

  /* Inputs are taken by name and lent to the run; they stay the file's. */
  for (size_t i = 0; i < input_count; ++i)
    if (coil_file_find(file, in[i].name, &inputs[i])) return failed();
  if (coil_context_run(context, inputs, input_count, outputs, output_count)) return failed();

  for (size_t i = 0; i < output_count; ++i) {
    names[i] = out[i].name;
    printf("%s: %d dimensions\n", out[i].name, (int)outputs[i].rank);
  }
  if (coil_file_write(argv[3], names, outputs, output_count)) return failed();

  for (size_t i = 0; i < output_count; ++i) coil_tensor_release(&outputs[i]); /* ours until here */
  coil_context_free(context);
  coil_file_close(file);
  coil_model_free(model);
  free(inputs), free(outputs), free(names);
  return 0;
}
