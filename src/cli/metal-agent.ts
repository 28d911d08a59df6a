import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { embeddedScheme, isSelfContained } from '../agent-core/util/embedded.ts'
import { lacksFiles, ownFailure } from '../agent-core/util/error-code.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { exitCodes, terminalOf } from './io.ts'
import { main } from './main.ts'

/** The built window; two folders up is the same folder from the sources and from the built files. */
const besideThis = path.resolve(import.meta.dirname, '../../out/renderer')

// A reader that goes away (`metal-agent status | head`, a closed terminal) ends no agent.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => stream.destroy())

// Not awaited at the top: the self-contained command is built as CommonJS, which knows no such thing.
void run()

async function run(): Promise<never> {
  const code = await main(process.argv.slice(2), {
    stdout: process.stdout,
    stderr: process.stderr,
    ...(process.stdin.isTTY && process.stdout.isTTY && { ask }),
    env: process.env,
    platform: process.platform,
    homeDir: homedir(),
    temporaryDir: tmpdir(),
    cwd: process.cwd(),
    self: isSelfContained() ? [process.execPath] : [process.execPath, process.argv[1] ?? import.meta.filename],
    windowFolder: isSelfContained() ? `${embeddedScheme}renderer` : besideThis,
  }).catch((error: unknown) => {
    terminalOf(process.stderr).write(`metal-agent: ${problemOf(error)}\n`)
    return exitCodes.failed
  })
  await Promise.all([written(process.stdout), written(process.stderr)])
  process.exit(code)
}

/** A sentence where this machine lacks something; anything else is a defect, printed with its stack. */
function problemOf(error: unknown): string {
  const why = ownFailure(error)
  if (why !== undefined)
    return `${messageOf(error)}: ${why}${lacksFiles(error) ? '; raise that limit (ulimit -n)' : ''}.`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

async function ask(question: string): Promise<string | undefined> {
  const { createInterface } = await import('node:readline/promises')
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  const ended = new Promise<undefined>((resolve) => lines.once('close', () => resolve(undefined)))
  try {
    return await Promise.race([lines.question(question), ended])
  } finally {
    lines.close()
  }
}

/** Until everything written before has left this process. */
function written(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writable) stream.write('', () => resolve())
    else resolve()
  })
}
