import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { acquireLock } from '../../../src/agent-core/state/lock.ts'

/** A process that takes the lock named on its command line, says how that went, and keeps it until its input ends. */
const [file = ''] = process.argv.slice(2)

const result = await acquireLock({
  file,
  processStartTime: async (pid) => {
    try {
      return (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ').at(-1)?.split(' ')[19]
    } catch {
      return undefined
    }
  },
})
process.stdout.write(`${JSON.stringify({ ok: result.ok, holder: result.ok ? process.pid : result.holder?.pid })}\n`)
await once(process.stdin.resume(), 'end')
if (result.ok) await result.lock.release()
