/** The parts of a terminal that a verb writes to. */
interface Output {
  readonly isTTY?: boolean | undefined
  /** Width of the terminal, where it is one. */
  readonly columns?: number | undefined
  write(text: string): unknown
}

/** What a verb may know of the process it runs in. */
export interface CliIo {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  readonly platform: NodeJS.Platform
  readonly homeDir: string
  readonly temporaryDir: string
  readonly cwd: string
  /** Where the built window is. */
  readonly windowFolder: string
}

export const exitCodes = {
  done: 0,
  failed: 1,
  wrongUsage: 2,
  noAgent: 3,
  refused: 4,
  notAvailable: 5,
  doesNotFit: 6,
} as const

/** Whether shapes beyond ASCII can be shown. */
export function usesUnicode({ env, platform }: CliIo): boolean {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG']
  return locale === undefined ? platform === 'darwin' : /utf-?8/i.test(locale)
}
