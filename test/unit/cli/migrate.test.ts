import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { VerbError } from '../../../src/cli/agent-session.ts'
import type { CliIo } from '../../../src/cli/io.ts'
import { migrateHere, type MigrateRequest } from '../../../src/cli/migrate.ts'
import type { InstallationHost } from '../../../src/installation/installation-host.ts'
import type { MigrationWorld } from '../../../src/installation/migration/inspect.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const plan: MigrateRequest = {
  deed: 'plan',
  isConfirmed: false,
  anyway: false,
  stopsOthers: false,
  plist: undefined,
  flags: [],
}

/** No Go agent runs, whatever other tests start on this machine. */
const platform: MigrationWorld['platform'] = {
  processes: () => Promise.resolve([]),
  isRunning: () => Promise.resolve(false),
  memory: () => hostPlatform().memory(),
  interfaces: () => [],
}

/** A Mac whose launchctl has nothing loaded; `isMac: false` = there is none. */
async function mac({ isMac = true } = {}) {
  const folder = await temporaryFolder()
  const { dir } = folder
  const bin = join(dir, 'bin')
  await mkdir(bin)
  await mkdir(join(dir, 'Library/LaunchAgents'), { recursive: true })
  if (isMac) {
    await writeFile(join(bin, 'launchctl'), '#!/bin/sh\nexit 113\n')
    await chmod(join(bin, 'launchctl'), 0o755)
  }
  const host: InstallationHost = {
    platform: 'darwin',
    env: { HOME: dir },
    user: { name: 'me', id: 501, groupId: 20, homeDir: dir },
    isRoot: false,
    systemRoot: join(dir, 'root'),
    programFolders: [bin, '/usr/bin', '/bin'],
  }
  const run = async (changes: Partial<MigrateRequest>, asked: Partial<InstallationHost> = {}) => {
    const printed = { stdout: '', stderr: '' }
    const io: CliIo = {
      stdout: { write: (text: string) => (printed.stdout += text) },
      stderr: { write: (text: string) => (printed.stderr += text) },
      env: { HOME: dir },
      platform: 'darwin',
      homeDir: dir,
      temporaryDir: dir,
      cwd: dir,
      windowFolder: join(dir, 'no-window'),
    }
    return {
      code: await migrateHere({ ...plan, ...changes }, io, { host: { ...host, ...asked }, platform }),
      ...printed,
    }
  }
  return { dir, run, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('where there is no launchd there is no Go agent, in one sentence', async () => {
  await using machine = await mac({ isMac: false })
  await expect(machine.run({})).rejects.toThrow(VerbError)
  await expect(machine.run({})).rejects.toThrow('runs only on macOS')
})

test('without a Go agent or a cluster everything that is in the way is said, and nothing is begun', async () => {
  await using machine = await mac()
  const { code, stdout, stderr } = await machine.run({ deed: 'migrate', isConfirmed: true })
  expect([code, stderr]).toEqual([4, 'metal-agent: Nothing was started: see what is in the way.\n'])
  expect(stdout).toMatch(/In the way:\n {2}There is no Go agent here: .*\n {2}The cluster does not answer/)
})

test('a plist edited by hand is told with the flag that is wrong', async () => {
  await using machine = await mac()
  const file = join(machine.dir, 'Library/LaunchAgents/com.llmkube.metal-agent.plist')
  const words = ['/usr/local/bin/llmkube-metal-agent', '--memory-fracton', '0.5']
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: words }))
  const { stdout } = await machine.run({})
  expect(stdout).toContain(
    `${file} has a flag that the Go agent does not know. There is no flag --memory-fracton: did you mean --memory-fraction?`,
  )
})

test('a LaunchDaemon is not begun with, and the commands that move it by hand are said', async () => {
  await using machine = await mac()
  const folder = join(machine.dir, 'root/Library/LaunchDaemons')
  await mkdir(folder, { recursive: true })
  const words = ['/usr/local/bin/llmkube-metal-agent', '--namespace', 'models']
  const file = join(folder, 'com.llmkube.metal-agent.plist')
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: words }))
  const { code, stdout } = await machine.run({ deed: 'migrate', isConfirmed: true })
  expect([code, stdout]).toEqual([
    4,
    expect.stringContaining(
      `nothing serves: sudo launchctl bootout system/com.llmkube.metal-agent; sudo mv ${file} ${file}.kept; sudo metal-agent install --daemon --`,
    ),
  ])
})

test('root moves nothing for a user, and leaves no folder of its own in their home', async () => {
  await using machine = await mac()
  await expect(machine.run({}, { isRoot: true })).rejects.toThrow('for me, not for root: run this again without sudo.')
  expect(await readdir(join(machine.dir, 'Library'))).toEqual(['LaunchAgents'])
})

test('flags that this agent does not take are refused before anything is begun', async () => {
  await using machine = await mac()
  expect((await machine.run({ flags: ['--no-such-flag'] })).stdout).toContain('There is no flag --no-such-flag')
})

test('another state folder than the one that keeps the way back is refused', async () => {
  await using machine = await mac()
  const { stdout } = await machine.run({ flags: ['--state-dir', '/elsewhere'] })
  expect(stdout).toContain('--state-dir /elsewhere is another folder than ')
})

test('there is nothing to go back to, nor to confirm, before a move', async () => {
  await using machine = await mac()
  expect(await machine.run({ deed: 'undo' })).toMatchObject({
    code: 1,
    stderr: 'metal-agent: There is no migration to undo.\n',
  })
  expect(await machine.run({ deed: 'confirm' })).toMatchObject({
    code: 1,
    stderr: 'metal-agent: There is no finished migration to confirm.\n',
  })
})
