import { holdByProcess } from '../../../src/agent-core/power/stay-awake.ts'

/** A process that holds its system awake by the program it is given, says so, and stays until it is killed. */
const [command = '', ...args] = process.argv.slice(2)
const ignore = () => undefined
holdByProcess({ command, args }, ignore)
process.stdout.write('held\n')
setInterval(ignore, 60_000)
