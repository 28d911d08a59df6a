import { parseArgs } from 'node:util'
import { buildCommand, buildMacCommandsHere } from './command.ts'

/** `node tasks/package/build-command.ts FILE`, or `--for-macs FOLDER` for those that are only checked here. */
const { values, positionals } = parseArgs({ options: { 'for-macs': { type: 'string' } }, allowPositionals: true })
const [output] = positionals
const folder = values['for-macs']
if (output !== undefined) await buildCommand(output)
else if (folder !== undefined) await buildMacCommandsHere(folder)
else throw new Error('Name the file that the self-contained command is written to.')
