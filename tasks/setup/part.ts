/** Something the tests need that npm does not bring. */
export interface Part {
  readonly name: string
  /** What a person reads while it is built. */
  readonly about: string
  /** A test run with CI=true fails without it. */
  readonly required: boolean
  find(): Found
  /** What this machine lacks to build it, with where to get it; undefined when nothing. */
  lacks(): Promise<string | undefined>
  /** Builds into the cache; the log receives what the tools print. */
  build(logFile: string): Promise<void>
}

export type Found =
  | { readonly found: true; /** The file to execute. */ readonly path: string; readonly origin: string }
  | { readonly found: false; readonly reason: string }
