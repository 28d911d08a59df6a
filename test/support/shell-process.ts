import type { ControlRequest } from './electron-stand-in/control.ts'

export interface ShellStart {
  /** Holds its home and state folders; its working directory. */
  readonly folder: string
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>
  /** After the program's own. */
  readonly args?: readonly string[]
}

/** The built app as a process of its own: on the stand-in for Electron, or on Electron itself. */
export interface ShellProcess {
  readonly exited: Promise<number | null>
  /** What it wrote so far. */
  readonly output: string
  /** Does what a person, a page or the system would, or looks. Rejects where it cannot be done, and when the app has ended. */
  ask(request: ControlRequest): Promise<unknown>
  signal(signal: NodeJS.Signals): void
}
