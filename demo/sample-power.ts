import { join } from 'node:path'
import { macmonSource } from '../src/agent-core/power/macmon.ts'
import type { PowerSource } from '../src/agent-core/power/power-source.ts'

const script = join(import.meta.dirname, 'sample-power.mjs')

/** In place of powermetrics and macmon, which only a Mac has: every watt is made up, and its name says so wherever watts are shown. */
export const samplePower: PowerSource = {
  ...macmonSource(() => Promise.resolve({ kind: 'found', path: process.execPath })),
  name: 'a sample that makes up its watts',
  command: (intervalMs) => Promise.resolve({ file: process.execPath, args: [script, String(intervalMs)] }),
}
