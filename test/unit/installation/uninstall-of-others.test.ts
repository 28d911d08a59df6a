import { chmod, mkdir, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { traceKinds, type TraceKind } from '../../../src/contract/uninstall.ts'
import { asOwner } from '../../../src/installation/installation-host.ts'
import { installService } from '../../../src/installation/service/change-service.ts'
import { installedServices } from '../../../src/installation/service/installed-service.ts'
import { launchdPlist } from '../../../src/installation/service/launchd.ts'
import { restartService, uninstallService } from '../../../src/installation/service/change-service.ts'
import { servicePart } from '../../../src/installation/uninstall/machine-parts.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { placesOfServices } from '../../../src/installation/uninstall/uninstall.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { examplePlan } from './service/example-plans.ts'

const silently = { chosen: new Set<TraceKind>(traceKinds), onStep: () => undefined }
const work = {
  agents: { look: () => Promise.resolve(undefined), leave: () => Promise.resolve('silent' as const) },
  tell: () => undefined,
  timings: { pollMs: 5, leaveMs: 100, startMs: 100 },
}
/** systemd that has the unit enabled and cannot start it. */
const systemctl = `case "$*" in
  *Version*) echo Version=257;;
  *' show '*) printf 'LoadState=loaded\\nUnitFileState=enabled\\nMainPID=0\\n';;
  *' start '*) echo 'Job for llmkube-metal-agent.service failed.' >&2; exit 1;;
esac`
const unitBelow = (home: string) => path.join(home, '.config/systemd/user/llmkube-metal-agent.service')

test('a unit that a person wrote under our name is named and stays, whoever asks for its removal', async () => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl })
  const text = '[Service]\nExecStart=/opt/metal-agent --namespace mars\n[Install]\nWantedBy=default.target\n'
  const unit = await there.write(unitBelow(there.home), text)
  const parts = await there.parts({ tell: work.tell })
  const [listed] = await listTraces(parts)
  expect([listed?.kind, listed?.places, listed?.stays]).toEqual([
    'service',
    [],
    [`${unit} was changed since metal-agent install wrote it: Metalbar did not write it.`],
  ])
  await removeTraces(parts, silently)
  const [service] = await installedServices(there.host)
  if (!service) throw new Error('It is gone.')
  await expect(uninstallService(service, { ...work, host: there.host, agents: undefined })).rejects.toThrow(
    'Metalbar did not write it, so it was left as it is',
  )
  expect(await readFile(unit, 'utf8')).toBe(text)
})

test('the LaunchDaemon of another user stays, and nothing of that user is looked for', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ security: 'exit 44', defaults: 'exit 1', launchctl: 'exit 113' })
  const file = there.at('root/Library/LaunchDaemons/dev.metalbar.llmkube-metal-agent.plist')
  await there.write(file, launchdPlist(examplePlan('launchDaemon')))
  const parts = await there.parts({ tell: work.tell })
  const listed = await listTraces(parts)
  expect(listed.map(({ kind, places, stays }) => [kind, places, stays])).toEqual([
    ['service', [], [`${file} is the service of you: sudo metal-agent uninstall removes it.`]],
  ])
  expect([await placesOfServices(there.host), await removeTraces(parts, silently)]).toMatchObject([
    [],
    [{ kind: 'service', isGone: true }],
  ])
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
      () => installService(examplePlan('launchDaemon'), { host, work, force: true }),
    ]
    for (const deed of deeds) {
      await expect(deed()).rejects.toThrow(
        'A LaunchDaemon is for the whole Mac, so only root may install, restart or remove it: run this again with sudo in front.',
      )
    }
  })
})

test('a service that systemd cannot start is not left to be started again and again', async () => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl })
  const flags = new Map([['state-dir', there.stateDir]])
  const plan = examplePlan('systemdUser', {
    flags,
    errorFile: path.join(there.stateDir, 'service/metal-agent.err.log'),
  })
  await expect(installService(plan, { host: there.host, work, force: false })).rejects.toThrow(
    /start llmkube-metal-agent\.service ended with code 1: Job for .* failed/,
  )
  expect((await there.called()).slice(-4).map((call) => call.replace(/^.*--no-pager /, ''))).toEqual([
    'disable llmkube-metal-agent.service',
    'stop --no-block llmkube-metal-agent.service',
    'daemon-reload',
    'reset-failed llmkube-metal-agent.service',
  ])
  expect(await readdir(path.dirname(unitBelow(there.home)))).toEqual([])
})

test('a folder or a device that was named as a log stays', async () => {
  await using there = await uninstallWorld()
  const folder = there.at('var/agent.log')
  await there.write(path.join(folder, 'mine.txt'))
  // Only looked for: whoever runs this may be root.
  expect(await listTraces(await there.parts({ known: [{ logFile: '/dev/null' }] }))).toEqual([])
  await removeTraces(await there.parts({ known: [{ logFile: folder }] }), silently)
  expect(await readdir(folder)).toEqual(['mine.txt'])
})

test.for([
  ['done', true],
  ['begun', true],
  ['undone', false],
] as const)("the Go agent's plist is kept where a move from it is %s: %s", async ([phase, isKept]) => {
  await using there = await uninstallWorld()
  const folder = path.join(there.stateDir, 'migration')
  await mkdir(folder, { recursive: true })
  const kept = path.join(folder, 'com.llmkube.metal-agent.plist')
  const migration = {
    ...{ startedAt: '2026-11-23T13:00:00.000Z', phase, flags: [], isInstalled: true, transferred: [] },
    job: { file: '/x.plist', label: 'com.llmkube.metal-agent', domain: 'gui/501', kept, program: '/x' },
    store: { from: '/a', to: '/b', moved: [] },
  }
  await there.write(path.join(folder, 'migration.json'), JSON.stringify({ schema: 1, migration }))
  await there.write(path.join(there.stateDir, 'node.json'))
  await there.write(kept, 'theirs')
  const [removal] = await removeTraces(await there.parts(), silently)
  expect(await readdir(path.dirname(there.stateDir))).toEqual(isKept ? ['metalbar'] : [])
  if (!isKept) return
  expect([await readFile(kept, 'utf8'), await readdir(there.stateDir)]).toEqual(['theirs', ['migration']])
  expect(removal?.message).toContain('"metal-agent migrate --undo" puts it back')
})
