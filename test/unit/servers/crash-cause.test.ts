import { expect, test } from 'vitest'
import { guessCause, saysAddressInUse, type CrashClues } from '../../../src/agent-core/servers/crash-cause.ts'
import { findFirstError, lastLines } from '../../../src/agent-core/servers/first-error.ts'

const clues = (output: string, changes: Partial<CrashClues> = {}): CrashClues => {
  const tail = lastLines(output, 200)
  const firstError = findFirstError(tail)
  return {
    executable: '/opt/homebrew/bin/llama-server',
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
    /^The GPU's share of the memory does not suffice: lower spec.contextSize/,
  ],
  [
    'too much for Metal while it warms up',
    `ggml_metal_synchronize: error: command buffer 0 failed with status 5
error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)`,
    /share of the memory does not suffice/,
  ],
  [
    'too much for a Metal buffer',
    'ggml_metal_buffer_init: error: failed to allocate buffer, size = 26214.40 MiB',
    /share of the memory does not suffice/,
  ],
  [
    'too much for a Metal buffer of a graph',
    'ggml_gallocr_reserve_n: failed to allocate Metal buffer of size 8891928576',
    /share of the memory does not suffice/,
  ],
  [
    'too much for CUDA',
    `ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory
llama_model_load: error loading model: unable to allocate CUDA0 buffer`,
    /share of the memory does not suffice/,
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
    /no program for the processor of this machine/,
  ],
]

test.each(recorded)('%s is recognised', (_what, output, says) => {
  expect(guessCause(clues(output))).toMatch(says)
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
    expect.stringMatching(/does not suffice/),
  ])
})

const killed = { code: null, signal: 'SIGKILL', outOf: 'serving' } as const
const memory = { residentBytes: 12.5 * 2 ** 30, ageMs: 4_200 }

test.each<[what: string, changes: Partial<CrashClues>, advice: string | undefined]>([
  [
    'a kill, with what it had in memory',
    { ...killed, memory },
    'It was killed from outside, perhaps by the kernel for want of memory (it had 13.4 GB of 25.8 GB 4 s before): if it happens again, choose a smaller model or end what else needs memory.',
  ],
  [
    'a kill of which nothing is known',
    killed,
    'It was killed from outside, perhaps by the kernel for want of memory: if it happens again, choose a smaller model or end what else needs memory.',
  ],
  [
    'a kill behind a shell',
    { code: 137, outOf: 'serving' },
    'It was killed from outside, perhaps by the kernel for want of memory: if it happens again, choose a smaller model or end what else needs memory.',
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
