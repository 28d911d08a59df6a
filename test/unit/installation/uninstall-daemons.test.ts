import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { ledgersIn } from '../../../src/agent-core/servers/ledger.ts'
import { serversPart } from '../../../src/installation/uninstall/machine-parts.ts'
import { eventually } from '../../support/eventually.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'

const platform = hostPlatform()

/** It ends only when it is killed. */
async function stubborn(): Promise<number> {
  const child = spawn('/bin/sh', ['-c', 'trap "" TERM; echo ready; while :; do read -r line; done'], {
    ...{ stdio: ['pipe', 'pipe', 'ignore'], detached: true },
  })
  const { pid, stdout } = child
  if (pid === undefined) throw new TypeError('no process')
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(stdout, 'data')
  return pid
}

test('a server that an agent left is killed where it does not end, a daemon is only told to', async () => {
  await using there = await uninstallWorld()
  const bootId = await platform.bootId()
  const noted = async (file: string, key: string) => {
    const pid = await stubborn()
    const { startTime } = (await platform.process(pid)) ?? { startTime: '' }
    const entry = {
      ...{
        key,
        uid: '',
        digest: '',
        executable: '/x',
        workingDirectory: '/w',
        logFile: '/l',
        outputOffset: 0,
        port: 1,
      },
      ...{ sleepsWhenIdle: false, bootId, intendedAt: '2026-11-23T13:00:00.000Z' },
      process: { pid, startTime, commandLineDigest: 'c' },
    }
    await there.write(file, JSON.stringify({ schema: 1, servers: [entry] }))
    return { pid, startTime }
  }
  const ledgers = ledgersIn(there.stateDir)
  const server = await noted(ledgers.servers, 'default/tiny')
  const daemon = await noted(ledgers.daemons, 'daemons/omlx')
  const { stateDir } = there
  const found = await serversPart(platform, { stateDir, socketPath: there.at('no.sock'), graceMs: 200 }).look()
  expect([found.places.map(({ path }) => path), found.byHand]).toEqual([
    [`default/tiny (process ${server.pid})`, `daemons/omlx (process ${daemon.pid})`],
    [`kill -KILL -- -${server.pid}`, `kill -TERM -- -${daemon.pid}`],
  ])
  await found.remove()
  await eventually(async () => !(await platform.isRunning(server)))
  expect(await platform.isRunning(daemon)).toBe(true)
})
