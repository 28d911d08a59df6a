import { setFlagsFromString } from 'node:v8'

/**
 * Keeps V8 small in a process that runs for weeks and does little, from here on. --liftoff-only (with what it implies at a start) keeps the
 * optimising compiler off undici's WebAssembly parser: 20 MiB at its peak, for nothing here. The last two keep TurboFan out, and Maglev but
 * for loops such as a model's header: 10 MiB less, and no more processor time. As options of the command line they would make Node.js
 * refuse the compiled code of its own modules, which is only valid for the same options: a seventh of the processor time of a start.
 */
export function keepEngineSmall(): void {
  for (const flag of flags) setFlagsFromString(flag)
}

const flags = [
  '--optimize-for-size',
  '--liftoff-only',
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
  '--no-opt',
  '--invocation-count-for-maglev=100000',
]
