import { parts } from './parts.ts'
import { setUp } from './set-up.ts'

/** `node tasks/setup/main.ts [part...]`: makes sure that what the tests need is here; all parts when none is named. */
const names = process.argv.slice(2)
const unknown = names.filter((name) => !parts.some((part) => part.name === name))
if (unknown.length > 0) {
  console.error(`No such part: ${unknown.join(', ')}. There are ${parts.map(({ name }) => name).join(' and ')}.`)
  process.exit(2)
}

const missing = await setUp(
  parts.filter(({ name }) => names.length === 0 || names.includes(name)),
  (line) => console.log(line),
)
process.exitCode = missing.length === 0 ? 0 : 1
