import { formatBytes } from '../../contract/format.ts'
import type { MemoryAtEnd } from './memory-watch.ts'
import type { Evidence, Exit } from './server-state.ts'

export interface CrashClues extends Exit, Evidence {
  readonly executable: string
  readonly outOf: 'start' | 'serving'
  readonly system: 'darwin' | 'linux'
  readonly memory?: MemoryAtEnd | undefined
  /** Of the machine. */
  readonly totalBytes: number
}

/** A start fails over what it prints; a server that served for hours may have printed anything before its last lines. */
const lastWords = 20

/** One sentence with the probable cause and what to do about it; undefined where no known cause fits. */
export function guessCause(clues: CrashClues): string | undefined {
  const { outOf, firstError, tail } = clues
  const lines = outOf === 'start' ? [firstError ?? '', ...tail] : tail.slice(-lastWords)
  const known = causes.find(({ says }) => lines.some((line) => says.test(line)))
  return known ? known.advice(clues) : bySignal(clues)
}

const couldNotBind = /address (is )?already in use|EADDRINUSE|couldn't bind|could not bind|failed to bind/i

/** Did it end because its port was taken after all? */
export const saysAddressInUse = ({ firstError, tail }: Evidence): boolean =>
  [firstError ?? '', ...tail].some((line) => couldNotBind.test(line))

interface KnownCause {
  /** In the words of llama.cpp, its back ends, or the loaders of macOS and Linux. */
  readonly says: RegExp
  readonly advice: (clues: CrashClues) => string
}

/** The first that matches counts: one failure causes others after it, and lines about memory come last. */
const causes: readonly KnownCause[] = [
  {
    says: /code signature|not valid for use in process|denied by system policy/i,
    advice: ({ executable, system }) => notAccepted(executable, system),
  },
  {
    says: /library not loaded|symbol not found|error while loading shared libraries|symbol lookup error|no backends are loaded/i,
    advice: ({ system }) => `A library that it needs is missing or does not fit: ${reinstall(system)}.`,
  },
  {
    says: /bad cpu type in executable|exec format error|cannot execute binary file|: \d+: syntax error: /i,
    advice: ({ executable, system }) =>
      `${executable} is no program for the processor of this machine: ${reinstall(system)}.`,
  },
  {
    says: /^error: (invalid|unknown) argument|error while handling argument/i,
    advice: () =>
      'This llama-server does not take that argument or its value: correct spec.extraArgs, or install another version of llama.cpp.',
  },
  {
    says: /unknown model architecture|unknown (projector|pre-tokenizer) type/i,
    advice: ({ system }) =>
      `This llama-server does not know this kind of model: ${upgrade[system]}, or choose another model.`,
  },
  {
    says: /invalid magic characters: '<[!a-z?]/i,
    advice: () => 'The model file is a web page: correct spec.source of the Model, which has to name the file itself.',
  },
  {
    says: /invalid magic|bad magic|failed to read magic/i,
    advice: () => 'The model file is not a GGUF file: correct spec.source of the Model, or convert the model to GGUF.',
  },
  {
    says: /data is not within the file bounds|corrupted or incomplete|failed to read header|only supports up to version|unexpectedly reached end of file/i,
    advice: ({ system }) =>
      `The model file is damaged, cut short, or newer than this llama-server: fetch it again, or ${upgrade[system]}.`,
  },
  {
    says: /tensor '[^']*' not found|missing tensor|wrong number of tensors|has wrong shape/i,
    advice: ({ system }) =>
      `The model file was made for another version of llama.cpp: ${upgrade[system]}, or fetch the file anew from its author.`,
  },
  {
    says: /insufficient memory|OutOfMemory|OutOfDeviceMemory|out of memory|failed to allocate (\w+ )?buffer|unable to allocate \w+ buffer|bad_alloc/i,
    advice: ({ system }) =>
      `The ${system === 'darwin' ? "GPU's share of the memory" : 'memory'} does not suffice: lower spec.contextSize or spec.parallelSlots, choose a smaller model, or end what else needs memory.`,
  },
]

function bySignal(clues: CrashClues): string | undefined {
  const { code, signal, outOf, tail, system, executable } = clues
  if (signal === 'SIGKILL' && system === 'darwin' && outOf === 'start' && tail.length === 0) {
    return notAccepted(executable, system)
  }
  if (signal === 'SIGKILL' || code === killedInAShell) {
    return `It was killed from outside, perhaps by the kernel for want of memory${footprint(clues)}: if it happens again, choose a smaller model or end what else needs memory.`
  }
  if (signal === 'SIGILL') {
    return `${executable} was built for a newer processor than this machine has: ${reinstall(system)}.`
  }
  return undefined
}

/** 128 + SIGKILL: how a shell around the server tells. */
const killedInAShell = 137

function footprint({ memory, totalBytes }: CrashClues): string {
  if (!memory) return ''
  const age = Math.round(memory.ageMs / 1_000)
  const when = age === 0 ? 'right before' : `${age} s before`
  return ` (it had ${formatBytes(memory.residentBytes)} of ${formatBytes(totalBytes)} ${when})`
}

const upgrade = { darwin: 'upgrade it ("brew upgrade llama.cpp")', linux: 'upgrade llama.cpp' }

const reinstall = (system: CrashClues['system']): string =>
  system === 'darwin' ? 'install it again ("brew reinstall llama.cpp")' : 'install llama.cpp again'

const notAccepted = (executable: string, system: CrashClues['system']): string =>
  `The system does not accept the code signature of ${executable}, or has it in quarantine: ${reinstall(system)}.`
