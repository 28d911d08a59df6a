import { writeSync } from 'node:fs'
import { LogFile } from '../../../src/agent-core/observability/log-file.ts'

/** Writes numbered lines, and prints each number once its line is written, until it is killed. */
const log = new LogFile({
  file: process.argv[2] ?? '',
  maxBytes: 1_000,
  count: 100,
  onTrouble: (message) => {
    throw new Error(message)
  },
  onRecovered: () => undefined,
  onLate: () => undefined,
})
for (let number = 0; ; number++) {
  log.write(`line ${number} ${'x'.repeat(number % 40)}.\n`)
  writeSync(1, `${number}\n`)
}
