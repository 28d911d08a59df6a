import { execa } from 'execa'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'

const program = fileURLToPath(new URL('../../src/cli/metal-agent.ts', import.meta.url))
/** Below, Node.js itself does not start. */
const fewest = 19

test(
  'an agent that may open too few files to see what runs ends with one sentence, and starts nothing',
  { timeout: 180_000 },
  async () => {
    await using folder = await temporaryFolder()
    const withFiles = (files: number, ...args: readonly string[]) =>
      execa('/bin/sh', ['-c', `ulimit -n ${files}; exec "$0" "$@"`, process.execPath, program, ...args], {
        reject: false,
        timeout: 20_000,
        env: { HOME: folder.dir },
      })
    let files = fewest
    while ((await withFiles(files, '--version')).exitCode !== 0) files += 1
    const flags = [
      '--state-dir',
      folder.dir,
      '--kubeconfig',
      `${folder.dir}/none`,
      '--host-ip',
      '192.0.2.7',
      '--port',
      '0',
    ]
    const sentence =
      /^metal-agent: .*EMFILE.*: this agent has reached the limit of open files and connections for one process \(EMFILE\); raise that limit \(ulimit -n\)\.$/
    for (const limit of [files + 1, files + 4, files + 8]) {
      const { stderr, stdout, exitCode } = await withFiles(limit, ...flags)
      const said = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))
      expect({ exitCode, said, stdout }).toEqual({ exitCode: 1, said: [expect.stringMatching(sentence)], stdout: '' })
    }
  },
)
