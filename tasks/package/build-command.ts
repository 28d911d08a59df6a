import { buildCommand } from './command.ts'

const [output] = process.argv.slice(2)
if (output === undefined) throw new Error('Name the file that the self-contained command is written to.')
await buildCommand(output)
