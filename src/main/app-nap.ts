import { systemPreferences } from 'electron'

/**
 * App Nap slows the timers of an app without windows to one in eight seconds, and claims are renewed by timers. A power save blocker prevents
 * that too, but it also keeps the Mac from going to sleep (IOPMAssertion NoIdleSleep), which `--sleep-policy` allows only while models work.
 * macOS reads this when an app starts, so that it counts from the next start on; the package says it for the first one.
 */
export function refuseAppNap(): void {
  // There on macOS alone.
  if ('setUserDefault' in systemPreferences) systemPreferences.setUserDefault('NSAppSleepDisabled', 'boolean', true)
}
