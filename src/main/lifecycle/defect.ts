import { app } from 'electron'

/** The argument of an app that was started again after a defect: when that was, in milliseconds since the epoch. */
const argument = '--after-defect='
/** An app that fails again sooner has a defect that another start does not mend. */
const leastRunMs = 60_000

/** Whether a defect ended the app less than a minute before `now`, and this is the one that was started again. */
export function isSoonAfterDefect(argv: readonly string[], now: number): boolean {
  const at = argv.find((one) => one.startsWith(argument))?.slice(argument.length)
  return at !== undefined && now - Number(at) < leastRunMs
}

/** Ends the process as failed. With `startsAgain` the app is started anew and told of it. */
export function exitAfterDefect({ startsAgain }: { readonly startsAgain: boolean }): void {
  const args = process.argv.slice(1).filter((one) => !one.startsWith(argument))
  if (startsAgain) app.relaunch({ args: [...args, `${argument}${Date.now()}`] })
  app.exit(1)
}
