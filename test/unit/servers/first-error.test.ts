import { expect, test } from 'vitest'
import { findFirstError, lastLines } from '../../../src/agent-core/servers/first-error.ts'

test.each([
  'error: invalid argument: --flash-attention',
  "llama_model_load: error loading model: unknown model architecture: 'qwen9'",
  'gguf_init_from_file_ptr: failed to read magic',
  'error: no such tensor',
  "srv operator(): couldn't bind HTTP server socket, hostname: 0.0.0.0, port: 8080",
  'ggml_metal_buffer_init: error: failed to allocate buffer, size = 26214.40 MiB',
  'llama-server: error while loading shared libraries: libllama.so: cannot open shared object file',
  'dyld[812]: Library not loaded: @rpath/libggml.dylib',
  "terminate called after throwing an instance of 'std::runtime_error'",
  'ggml.c:1234: GGML_ASSERT(n_dims == 4) failed',
  'Segmentation fault (core dumped)',
])('%s is an error', (line) => {
  expect(findFirstError(['build: 11434', line, 'main: exiting due to model loading error'])).toBe(line)
})

test.each([
  'ggml_metal_init: skipping kernel_mul_mv_bf16_f32 (not supported)',
  'load: 0 errors while reading',
  'main: warning: failed to lock memory, raise RLIMIT_MEMLOCK',
  '0.00.012.345 I srv load_model: failed over to the CPU',
  'W srv  init: cannot use a draft model',
  'common_params: ignore_error = false, error: none',
  'print_info: general.name = Terror of Abortia',
])('%s is none', (line) => {
  expect(findFirstError([line])).toBeUndefined()
})

test('what llama-server itself marks as an error is one, told without its time and level', () => {
  const lines = [
    '0.00.041.000 I srv load_model: loading model',
    '0.00.046.978 E llama_model_load: error loading model: it is damaged',
    '0.00.049.363 E srv llama_server: exiting due to model loading error',
  ]
  expect(findFirstError(lines)).toBe('llama_model_load: error loading model: it is damaged')
})

test('an error is made fit for a sentence: no colours, no control characters, not endless', () => {
  expect(findFirstError(['\u001b[31mE srv: failed\u0000\u0007 to load\u001b[0m\r'])).toBe('srv: failed to load')
  expect(findFirstError([`error: ${'x'.repeat(5_000)}`])).toHaveLength(301)
})

test('the last lines are those with something in them', () => {
  expect(lastLines('a\n\nb\r\n\nc\n', 2)).toEqual(['b', 'c'])
})
