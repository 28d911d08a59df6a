import { fileURLToPath } from 'node:url'

/** An executable that takes llama-server's arguments and speaks its HTTP; it says that it is a sample. */
export const sampleServerPath = fileURLToPath(new URL('sample-server.cjs', import.meta.url))

export interface Crash {
  readonly message?: string
  readonly exitCode?: number
  /** Instead of an exit code. */
  readonly signal?: NodeJS.Signals
}

/** How the sample shall misbehave; all times count from its start. */
export interface SampleScript {
  /** Answers 503 for so long, and says something every 20 ms meanwhile. */
  readonly loadMs?: number
  /** … but says nothing. */
  readonly quietLoad?: boolean
  /** From then on loading never ends and nothing is said. */
  readonly stallLoadAfterMs?: number
  /** The port opens late. */
  readonly listenAfterMs?: number
  /** Listens on some other port. */
  readonly wrongPort?: boolean
  readonly crashAtStart?: Crash
  readonly crashAfterMs?: number
  readonly crashAfterRequests?: number
  /** What a later crash looks like. */
  readonly crash?: Crash
  /** Accepts connections and never answers. */
  readonly hangAfterMs?: number
  /** Computes and does nothing else. */
  readonly spinAfterMs?: number
  /** Does not tell its counters. */
  readonly noMetrics?: boolean
  /** Answers something else instead: a page, figures that cannot be, 50 MB, or nothing at all. */
  readonly oddMetrics?: 'page' | 'impossible' | 'endless' | 'silent'
  readonly ignoreSigterm?: boolean
  /** Another process serves, this one only waits for it. */
  readonly grandchild?: { readonly ownGroup?: boolean; readonly ignoreSigterm?: boolean }
  readonly noise?: {
    readonly lines: number
    readonly lineBytes?: number
    readonly binary?: boolean
    readonly everyMs?: number
  }
  /** What /health answers once loaded. */
  readonly healthStatus?: number
  /** Memory that it really takes while it loads, in MiB. */
  readonly takeMiB?: number
  /** How long each token takes. */
  readonly tokenMs?: number
}

/** Arguments for `spec.extraArgs`. */
export const sampleScriptArgs = (script: SampleScript): string[] => ['--sample-script', JSON.stringify(script)]

/** They take the arguments of mlx-server, vllm-swift and tensorfold, and a script in the variable SAMPLE_SCRIPT: `loadMs`, `takeMiB` and `tokenMs`. */
export const sampleMlxServerPath = fileURLToPath(new URL('sample-mlx-server', import.meta.url))
export const sampleTensorfoldPath = fileURLToPath(new URL('sample-tensorfold', import.meta.url))
export const sampleVllmSwiftPath = fileURLToPath(new URL('sample-vllm-swift', import.meta.url))
