/** What `launchctl print` says of one job. */
export interface LaunchdJob {
  /** As launchd calls it: "running", "not running", "spawn scheduled" and others. */
  readonly state: string
  readonly pid?: number
  /** Of the file that was loaded. */
  readonly path?: string
  /** How often it was started since it was loaded. */
  readonly runs?: number
  /** Absent where it has not ended yet. */
  readonly lastExit?: LastExit
}

export type LastExit = { readonly code: number } | { readonly signal: string }

/**
 * Reads the lines of the job itself, which are indented by one tab; its environment and endpoints stand deeper. Apple says that this
 * output is for people and may change, so that whatever is missing is left out.
 */
export function parseLaunchdJob(output: string): LaunchdJob {
  const fields = new Map<string, string>()
  for (const line of output.split('\n')) {
    const [, name, value] = /^\t([^\t=][^=]*?) = (.*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined && !fields.has(name)) fields.set(name, value)
  }
  const pid = wholeNumber(fields.get('pid'))
  const runs = wholeNumber(fields.get('runs'))
  const path = fields.get('path')
  const lastExit = lastExitOf(fields)
  return {
    state: fields.get('state') ?? (pid === undefined ? 'not running' : 'running'),
    ...(pid !== undefined && { pid }),
    ...(path !== undefined && { path }),
    ...(runs !== undefined && { runs }),
    ...(lastExit && { lastExit }),
  }
}

const wholeNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined

/** As "last exit code = 78: EX_CONFIG", "(never exited)", and "last terminating signal = Killed: 9". */
function lastExitOf(fields: ReadonlyMap<string, string>): LastExit | undefined {
  const signal = fields.get('last terminating signal')
  if (signal !== undefined) return { signal }
  const code = /^(\d{1,5})(?:: |$)/.exec(fields.get('last exit code') ?? '')?.[1]
  return code === undefined ? undefined : { code: Number(code) }
}
