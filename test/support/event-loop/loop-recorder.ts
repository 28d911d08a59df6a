// Loaded into a process before its own code (`node --import`): writes down how long its thread computed without a look at its timers.
// Only processor time counts, so that a machine which gives it none is not taken for a process that holds itself up.
import { appendFileSync } from 'node:fs'
import { lookEveryMs, loopRecordsVariable, noteworthyMs } from './loop-records.ts'

const file = process.env[loopRecordsVariable] ?? ''
// Programs that it starts are not looked at.
delete process.env['NODE_OPTIONS']
let before = process.threadCpuUsage()
setInterval(() => {
  const { user, system } = process.threadCpuUsage(before)
  const cpuMs = (user + system) / 1_000
  if (cpuMs >= noteworthyMs) appendFileSync(file, `${JSON.stringify({ endedAt: Date.now(), cpuMs })}\n`)
  before = process.threadCpuUsage()
}, lookEveryMs).unref()
