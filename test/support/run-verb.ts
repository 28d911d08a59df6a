import { tmpdir } from 'node:os'
import path from 'node:path'
import type { CliIo } from '../../src/cli/io.ts'
import { main } from '../../src/cli/main.ts'

/** What a command of this process may know, which is nothing of this machine but what is given, and what it prints. */
export function recordedIo(homeDir: string, given: Partial<CliIo> = {}) {
  const printed = { stdout: '', stderr: '' }
  const output = (name: keyof typeof printed) => ({ write: (text: string) => (printed[name] += text) })
  const io: CliIo = {
    stdout: output('stdout'),
    stderr: output('stderr'),
    env: {},
    platform: process.platform,
    homeDir,
    temporaryDir: tmpdir(),
    cwd: homeDir,
    windowFolder: path.join(homeDir, 'no-window'),
    ...given,
  }
  return { io, printed }
}

/** `metal-agent WORDS` in this process: its exit code and what it printed. */
export async function runVerb(words: readonly string[], homeDir: string, given: Partial<CliIo> = {}) {
  const { io, printed } = recordedIo(homeDir, given)
  const code = await main([...words], io)
  return { code, ...printed }
}
