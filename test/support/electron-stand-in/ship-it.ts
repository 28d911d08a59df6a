import { renameSync } from 'node:fs'

/** `ship-it.ts PID STAGED BUNDLE`: when the process has ended, the staged app takes the place of the other. Ends by itself after a minute. */
const [pid = '', staged = '', bundle = ''] = process.argv.slice(2)
const since = performance.now()
const limitMs = 60_000

function look(): void {
  try {
    process.kill(Number(pid), 0)
    if (performance.now() - since < limitMs) setTimeout(look, 10)
  } catch {
    renameSync(bundle, `${staged}.before`)
    renameSync(staged, bundle)
  }
}

look()
