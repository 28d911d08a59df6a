import { expect, test } from 'vitest'
import {
  guessCause,
  saysAddressInUse,
  type CrashClues,
  findFirstError,
  lastLines,
  readEvidence,
} from '../../../src/agent-core/servers/crash-cause.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import type { ProcessRuntimeName } from '../../../src/agent-core/servers/probe.ts'
import { OutputRoom } from './output-room.ts'
import { ServerRoom } from './server-room.ts'

const clues = (
  output: string,
  changes: Partial<CrashClues> = {},
  runtime: ProcessRuntimeName = 'llama-server',
): CrashClues => {
  const tail = lastLines(output, 200)
  const firstError = findFirstError(tail)
  return {
    executable: '/opt/homebrew/bin/llama-server',
    advice: runtimes[runtime].advice,
    ...{ code: 1, signal: null, outOf: 'start', system: 'darwin', totalBytes: 24 * 2 ** 30 },
    ...(firstError === undefined ? {} : { firstError }),
    tail,
    ...changes,
  }
}

/** Recorded from llama-server 11434 (marked *), or quoted from reports to its authors. */
const recorded: [what: string, output: string, says: RegExp][] = [
  [
    'an architecture it does not know *',
    `0.00.006.397 E llama_model_load: error loading model: unknown model architecture: 'banana'
0.00.006.429 E llama_model_load_from_file_impl: failed to load model
0.00.006.464 E common_fit_params: encountered an error while trying to fit params to free device memory: failed to load model
0.00.007.598 E srv  llama_server: exiting due to model loading error`,
    /does not know this kind of model: upgrade it \("brew upgrade llama.cpp"\)/,
  ],
  [
    'a web page *',
    `0.00.006.097 E gguf_init_from_reader: invalid magic characters: '<!DO', expected 'GGUF'
0.00.006.246 E llama_model_load: error loading model: llama_model_loader: failed to load model from /tmp/html.gguf`,
    /is a web page: correct spec.source/,
  ],
  [
    'a file of another kind *',
    `0.00.007.028 E gguf_init_from_reader: invalid magic characters: '????', expected 'GGUF'
0.00.007.482 E llama_model_load: error loading model: llama_model_loader: failed to load model from /tmp/rnd.gguf`,
    /is not a GGUF file/,
  ],
  [
    'a damaged header *',
    `0.00.006.315 E gguf_init_from_reader: this GGUF file is version 2584177150 but this software only supports up to version 3
0.00.006.345 E gguf_init_from_reader: failed to read header`,
    /damaged, cut short, or newer/,
  ],
  [
    'a file cut short *',
    "0.00.005.638 E llama_model_load: error loading model: tensor 'blk.0.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete",
    /damaged, cut short, or newer/,
  ],
  [
    'a file without what its architecture needs *',
    "0.00.006.686 E llama_model_load: error loading model: check_tensor_dims: tensor 'blk.2.attn_norm.weight' not found",
    /made for another version of llama.cpp/,
  ],
  ['an argument it does not know *', 'error: invalid argument: --bogus', /correct spec.extraArgs/],
  ['a value it cannot read *', 'error while handling argument "--ctx-size": stoi', /correct spec.extraArgs/],
  [
    'too much for the memory of the processor *',
    `0.02.716.865 E ggml_aligned_malloc: insufficient memory (attempted to allocate 12207.06 MB)
0.02.876.737 E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache`,
    /^The GPU's share of the memory is not enough: lower spec.contextSize/,
  ],
  [
    'too much for Metal while it warms up',
    `ggml_metal_synchronize: error: command buffer 0 failed with status 5
error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)`,
    /share of the memory is not enough/,
  ],
  [
    'too much for a Metal buffer',
    'ggml_metal_buffer_init: error: failed to allocate buffer, size = 26214.40 MiB',
    /share of the memory is not enough/,
  ],
  [
    'too much for a Metal buffer of a graph',
    'ggml_gallocr_reserve_n: failed to allocate Metal buffer of size 8891928576',
    /share of the memory is not enough/,
  ],
  [
    'too much for CUDA',
    `ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory
llama_model_load: error loading model: unable to allocate CUDA0 buffer`,
    /share of the memory is not enough/,
  ],
  [
    'a library that is missing on a Mac',
    `dyld[18622]: Library not loaded: @rpath/libllama.dylib
  Referenced from: <A6F705D2-0AC3-32BD-8CF2-3A55262E9195> /opt/bin/llama-server
  Reason: tried: '/opt/libllama.dylib' (no such file)`,
    /library that it needs is missing .*: install it again \("brew reinstall llama.cpp"\)/,
  ],
  [
    'a library that is missing on Linux *',
    './llama-server: error while loading shared libraries: libllama.so: cannot open shared object file: No such file or directory',
    /library that it needs is missing/,
  ],
  [
    'a library whose signature is not accepted',
    "dyld[1]: Library not loaded: @rpath/libggml.dylib\n  Reason: tried: '/x/libggml.dylib' (code signature in <8A> '/x/libggml.dylib' not valid for use in process)",
    /does not accept the code signature of .*, or has it in quarantine/,
  ],
  [
    'no back end',
    '0.00.114.075 E llama_model_load_from_file_impl: no backends are loaded. hint: use ggml_backend_load()',
    /library that it needs is missing/,
  ],
  [
    'a program for another processor *',
    '/opt/bin/llama-server: 1: Syntax error: "(" unexpected',
    /not built for this machine's processor/,
  ],
]

test.each(recorded)('%s is recognised', (_what, output, says) => {
  expect(guessCause(clues(output))).toMatch(says)
})

/** Recorded from mlx-lm 0.32.2 (marked *), or quoted from reports to the authors of MLX, mlx-swift-lm and vLLM. */
const recordedOfMlx: [runtime: ProcessRuntimeName, what: string, output: string, says: RegExp][] = [
  [
    'mlx-lm',
    'a kind of model it does not know *',
    `2026-11-26 01:46:09,055 - ERROR - mlx_lm.server generation thread died: Model type banana not supported.
Traceback (most recent call last):
  File "/venv/mlx_lm/utils.py", line 222, in _get_classes
    arch = importlib.import_module(f"mlx_lm.models.{model_type}")
ModuleNotFoundError: No module named 'mlx_lm.models.banana'
During handling of the above exception, another exception occurred:
ValueError: Model type banana not supported.`,
    /^This mlx-lm does not know this kind of model: upgrade it \("brew upgrade mlx-lm"\), or/,
  ],
  [
    'mlx-lm',
    'a broken installation *',
    `Traceback (most recent call last):
  File "/venv/mlx_lm/server.py", line 5, in <module>
    import mlx.core as mx
ModuleNotFoundError: No module named 'mlx.core'`,
    /^A part of mlx-lm, or of what it needs, is missing: install it again \("brew reinstall mlx-lm"\)\.$/,
  ],
  [
    'mlx-lm',
    'an argument *',
    '__main__.py: error: unrecognized arguments: --bogus',
    /^This mlx-lm does not accept that/,
  ],
  [
    'mlx-lm',
    'memory of the processor *',
    'RuntimeError: [malloc] Unable to allocate 16000000000000 bytes.',
    /^The GPU's share of the memory is not enough: /,
  ],
  [
    'mlx-lm',
    'a buffer that is too big for Metal',
    'RuntimeError: [metal::malloc] Attempting to allocate 153600000000 bytes which is greater than the maximum allowed buffer size of 57982058496 bytes.',
    /^The GPU's share of the memory is not enough: /,
  ],
  [
    'mlx-server',
    'memory of Metal',
    'libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)',
    /^The GPU's share of the memory is not enough: /,
  ],
  [
    'mlx-server',
    'a program parted from what belongs beside it',
    'MLX error: Failed to load the default metallib. library not found',
    /^The program was separated from the folders that belong beside it: install mlx-server again/,
  ],
  [
    'mlx-server',
    'an argument',
    "Error: Unknown option '--bogus'\nUsage: mlx-server [--model <model>]",
    /^This mlx-server does not accept that argument/,
  ],
  [
    'vllm-swift',
    'a conversation that is too long',
    "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=40960.0 or model_max_length=None in model's config.json).",
    /lower spec\.contextSize\.$/,
  ],
  [
    'vllm-swift',
    'packages that were not set up',
    "/venv/bin/python3: Error while finding module specification for 'vllm.entrypoints.openai.api_server' (ModuleNotFoundError: No module named 'vllm')",
    /run "vllm-swift setup"\.$/,
  ],
  [
    'vllm-swift',
    'a kernel that the build lacks',
    'Fatal error: [metal::Device] Unable to load kernel turbo_dequant_rotated_4_256_bf16',
    /^This build lacks a part that the model needs: upgrade it \("brew upgrade vllm-swift"\)\.$/,
  ],
  [
    'tensorfold',
    'too little memory by its own count',
    "ValueError: the model and its caches do not fit this server's 12.0 GB memory budget",
    /lower spec\.contextSize or spec\.parallelSlots, or choose a smaller model\.$/,
  ],
  [
    'tensorfold',
    'a conversation that is too long',
    "ValueError: --context 65536 exceeds this model's 40960-token window",
    /The model was not made for conversations of that length: lower spec\.contextSize\.$/,
  ],
]

test.each(recordedOfMlx)('%s: %s is recognised', (runtime, _what, output, says) => {
  expect(guessCause(clues(output, {}, runtime))).toMatch(says)
})

test("of Python's report of an exception the line that says which is the error", () => {
  const lines = (recordedOfMlx[1]?.[2] ?? '').split('\n')
  expect(findFirstError(lines)).toBe("ModuleNotFoundError: No module named 'mlx.core'")
})

test('what is said about memory on the way to another end is not taken for the cause', () => {
  const output = `0.00.006.305 E common_fit_params: encountered an error while trying to fit params to free device memory: failed to load model
0.00.007.598 E srv  llama_server: exiting due to model loading error`
  expect(guessCause(clues(output))).toBeUndefined()
})

test('what was said long before a server ended is not taken for the cause', () => {
  const old = 'error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)'
  const since = Array.from({ length: 30 }, (_, index) => `slot release: id ${index}`).join('\n')
  const during = (output: string) => guessCause(clues(output, { outOf: 'serving', code: null, signal: 'SIGABRT' }))
  expect([during(`${old}\n${since}`), during(`${since}\n${old}`)]).toEqual([
    undefined,
    expect.stringMatching(/is not enough/),
  ])
})

const killed = { code: null, signal: 'SIGKILL', outOf: 'serving' } as const
const memory = { residentBytes: 12.5 * 2 ** 30, ageMs: 4_200 }

test.each<[what: string, changes: Partial<CrashClues>, advice: string | undefined]>([
  [
    'a kill, with what it had in memory',
    { ...killed, memory },
    'Something killed it, perhaps the kernel because memory ran out (it had 13.4 GB of 25.8 GB 4 s before): if it happens again, choose a smaller model or quit other programs that use memory.',
  ],
  [
    'a kill of which nothing is known',
    killed,
    'Something killed it, perhaps the kernel because memory ran out: if it happens again, choose a smaller model or quit other programs that use memory.',
  ],
  [
    'a kill behind a shell',
    { code: 137, outOf: 'serving' },
    'Something killed it, perhaps the kernel because memory ran out: if it happens again, choose a smaller model or quit other programs that use memory.',
  ],
  [
    'a kill before the first word, on a Mac',
    { ...killed, outOf: 'start' },
    'The system does not accept the code signature of /opt/homebrew/bin/llama-server, or has it in quarantine: install it again ("brew reinstall llama.cpp").',
  ],
  [
    'an instruction the processor does not have',
    { code: null, signal: 'SIGILL', system: 'linux' },
    '/opt/homebrew/bin/llama-server was built for a newer processor than this machine has: install llama.cpp again.',
  ],
  ['a crash without words', { code: null, signal: 'SIGSEGV' }, undefined],
  ['an exit without words', { code: 0 }, undefined],
])('%s', (_what, changes, advice) => {
  expect(guessCause(clues('', changes))).toBe(advice)
})

test('on Linux nobody is told of brew or a GPU', () => {
  const advice = recorded.map(([, output]) => guessCause(clues(output, { system: 'linux' })) ?? '')
  expect(advice.filter((text) => text === '' || /"brew|GPU/.test(text))).toEqual([])
})

test.each([
  "0.00.003.602 E srv         start: couldn't bind HTTP server socket, hostname: 0.0.0.0, port: 38124",
  'bind: Address already in use',
])('%s means that the port is taken', (line) => {
  expect(saysAddressInUse({ tail: [line] })).toBe(true)
})

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

test('the first error of a start is found in what was cut off, and that of an earlier attempt is none', async () => {
  await using room = await OutputRoom.create(1_000)
  await room.write('error: port taken, an attempt before\n')
  const { to: offset } = (await room.log.extent()) ?? { to: 0 }
  await room.write(`error: this is why\n${'noise\n'.repeat(150)}`)
  await room.look()
  await room.write('error: and this follows from it\n')
  expect(await readEvidence(room.log, { offset, outOf: 'start' })).toMatchObject({ firstError: 'error: this is why' })
})

test('where the beginning of a run is no longer kept, the first error of what is left counts', async () => {
  await using room = await OutputRoom.create(1_000)
  await room.write('error: the real reason\n')
  for (let n = 0; n < 3; n++) {
    await room.write('noise\n'.repeat(160))
    await room.look()
  }
  await room.write('error: all that is left\n')
  const { firstError, tail } = await readEvidence(room.log, { offset: 0, outOf: 'start' })
  expect([firstError, tail.at(-1), tail.length]).toEqual(['error: all that is left', 'error: all that is left', 161])
})

test('the error among garbage, long lines and empty ones is found', async () => {
  await using room = await OutputRoom.create(100_000_000)
  const garbage = Buffer.from(
    Array.from({ length: 100_000 }, (_, n) => (n * 7_919 + (n >> 3)) % 256).filter((byte) => byte !== 10),
  )
  await room.write(Buffer.concat([garbage, Buffer.from(`\nerror: found ${'\u001b['.repeat(100_000)}\n`)]))
  await room.write('\n'.repeat(300_000))
  const { firstError } = await readEvidence(room.log, { offset: 0, outOf: 'start' })
  expect(firstError).toMatch(/^error: found/)
})

test('a server that fails after it wrote more than is kept still says why', async () => {
  await using room = await ServerRoom.create({ outputBytes: 50_000 })
  room.start({
    noise: { lines: 20, lineBytes: 500, everyMs: 5 },
    loadMs: 60_000,
    crashAfterMs: 1_500,
    crash: { message: 'llama_model_load: error loading model: no' },
  })
  expect(await room.settled()).toMatchObject({
    firstError: 'llama_model_load: error loading model: no',
    outOf: 'start',
  })
})
