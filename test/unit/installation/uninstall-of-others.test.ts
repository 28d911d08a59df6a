import { chmod, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import { traceKinds, type TraceKind } from '../../../src/contract/uninstall.ts'
import { asOwner } from '../../../src/installation/installation-host.ts'
import { launchdPlist } from '../../../src/installation/service/launchd.ts'
import {
  installedServices,
  installService,
  restartService,
  uninstallService,
} from '../../../src/installation/service/service.ts'
import { servicePart } from '../../../src/installation/uninstall/machine-parts.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { examplePlan } from './service/example-plans.ts'

const silently = { chosen: new Set<TraceKind>(traceKinds), onStep: () => undefined }
const work = {
  agents: { look: () => Promise.resolve(undefined), leave: () => Promise.resolve('silent' as const) },
  tell: () => undefined,
  timings: { pollMs: 5, leaveMs: 100, startMs: 100 },
}

test('a plist that a person wrote under our name is named and stays, whoever asks for its removal', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ security: 'exit 44', defaults: 'exit 1', launchctl: 'exit 113' })
  const label = 'dev.metalbar.llmkube-metal-agent'
  const text = build({ Label: label, ProgramArguments: ['/opt/metal-agent', '--namespace', 'mars'] })
  const file = await there.write(path.join(there.home, `Library/LaunchAgents/${label}.plist`), `${text}\n`)
  const parts = await there.parts({ tell: work.tell })
  const [listed] = await listTraces(parts)
  expect([listed?.kind, listed?.places, listed?.stays]).toEqual([
    'service',
    [],
    [`${file} does not start this agent: Metalbar did not write it.`],
  ])
  await removeTraces(parts, silently)
  const [service] = await installedServices(there.host)
  if (!service) throw new Error('It is gone.')
  await expect(uninstallService(service, { ...work, host: there.host, agents: undefined })).rejects.toThrow(
    'Metalbar did not write it, so it was left as it is',
  )
  expect(await readFile(file, 'utf8')).toBe(`${text}\n`)
})

test('the LaunchDaemon of another user stays', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ security: 'exit 44', defaults: 'exit 1', launchctl: 'exit 113' })
  const file = there.at('root/Library/LaunchDaemons/dev.metalbar.llmkube-metal-agent.plist')
  await there.write(file, launchdPlist(examplePlan('launchDaemon')))
  const parts = await there.parts({ tell: work.tell })
  const listed = await listTraces(parts)
  expect(listed.map(({ kind, places, stays }) => [kind, places, stays])).toEqual([
    ['service', [], [`${file} is the service of you: sudo metal-agent uninstall removes it.`]],
  ])
  expect(await removeTraces(parts, silently)).toMatchObject([{ kind: 'service', isGone: true }])
  expect(await readdir(path.dirname(file))).toEqual([path.basename(file)])
})

test('the file of a LaunchDaemon that only root may read is named to others with what root does, and is in nobody’s way', async (context) => {
  if (process.getuid?.() !== 0) context.skip('only root can become another user')
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ security: 'exit 44', defaults: 'exit 1', launchctl: 'exit 113' })
  const file = there.at('root/Library/LaunchDaemons/dev.metalbar.llmkube-metal-agent.plist')
  await there.write(file, launchdPlist(examplePlan('launchDaemon')))
  await chmod(file, 0o600)
  await chmod(there.at('.'), 0o755)
  await there.write(there.at('calls'), '')
  await chmod(there.at('calls'), 0o666)
  const user = { ...there.host.user, id: 65_534, groupId: 65_534 }
  const asNobody = <T>(does: () => Promise<T>) => asOwner({ ...there.host, isRoot: true, user }, does)
  await asNobody(async () => {
    const host = { ...there.host, user }
    const [service] = await installedServices(host)
    if (!service) throw new Error('It is not seen.')
    const look = await servicePart(host, work.tell).look()
    expect([look.places, look.stays]).toEqual([
      [],
      [
        `${file} may be read only by root, so it is not known whose service it is: sudo metal-agent uninstall removes it.`,
      ],
    ])
    const deeds = [
      () => uninstallService(service, { ...work, host, agents: undefined }),
      () => restartService(service, work),
      () => installService(examplePlan('launchDaemon'), { host, work }),
    ]
    for (const deed of deeds) {
      await expect(deed()).rejects.toThrow(
        'A LaunchDaemon is for the whole Mac, so only root may install, restart or remove it: run this again with sudo in front.',
      )
    }
  })
})
