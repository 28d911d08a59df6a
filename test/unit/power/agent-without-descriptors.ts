import { closeSync, openSync } from 'node:fs'
import { holdByProcess } from '../../../src/agent-core/power/stay-awake.ts'

/** A process that has no file descriptor left when it begins to hold its system awake, and says what it was told. */
const open: number[] = []
try {
  for (;;) open.push(openSync('/dev/null', 'r'))
} catch {
  // None is left.
}
const hold = holdByProcess({ command: '/bin/cat', args: [] }, (how) => {
  for (const descriptor of open) closeSync(descriptor)
  const code = 'error' in how && 'code' in how.error ? String(how.error.code) : 'none'
  process.stdout.write(`${code} ${hold.isHeld}\n`)
})
