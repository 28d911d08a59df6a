import { expect, test, vi } from 'vitest'
import { parseInferenceService, parseModel } from '../../../src/agent-core/kube/resources.ts'
import type { DesiredServer } from '../../../src/agent-core/reconcile/reading.ts'
import { ServerStarts } from '../../../src/agent-core/reconcile/server-starts.ts'
import type { ServiceRooms } from '../../../src/agent-core/reconcile/service-rooms.ts'
import { sampleServerPath } from '../../support/sample-servers/sample.ts'
import { silentLog } from '../../support/silent-log.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { ServerRoom } from '../servers/server-room.ts'

const metadata = { namespace: 'a', name: 'b', uid: 'uid', resourceVersion: '1' }
const service = parseInferenceService({ metadata, spec: { modelRef: 'm' } })
const model = parseModel({ metadata, spec: { source: '/m.gguf' } })
const file = { path: sampleServerPath, files: [], sizeBytes: 1, revision: 'r' }

const desiredServer = (digest: string): DesiredServer => ({
  service,
  spec: service.spec.value,
  model: model.spec.value,
  modelStatus: model.status,
  runtime: 'llama-server',
  digest,
})

/** What starts ask of the rooms. */
interface Needed extends Pick<ServiceRooms, 'servers' | 'log' | 'enqueue' | 'isStopped' | 'now'> {
  readonly models: Pick<ServiceRooms['models'], 'isIntact'>
  readonly launches: Pick<
    ServiceRooms['launches'],
    'findBinary' | 'prepare' | 'startProblem' | 'needKey' | 'sizeUp' | 'launch'
  >
  readonly admission: Pick<ServiceRooms['admission'], 'need' | 'prepare' | 'admit' | 'compare'>
  readonly turns: Pick<ServiceRooms['turns'], 'ask' | 'forget'>
  readonly narrator: Pick<ServiceRooms['narrator'], 'tell' | 'startFailed'>
}

const optionsIn = (room: ServerRoom): Needed => ({
  servers: room.servers,
  models: { isIntact: () => Promise.resolve(true) },
  launches: {
    findBinary: () => Promise.resolve({ kind: 'found', path: sampleServerPath }),
    prepare: (server, local, binary) =>
      Promise.resolve({
        ...{ desiredServer: server, runtime: runtimes['llama-server'], model: local },
        ...{ binary, env: {}, dialect: undefined },
      }),
    startProblem: () => Promise.resolve(undefined),
    needKey: () => Promise.resolve('n'),
    sizeUp: () => Promise.resolve({ of: 'n', estimate: undefined, whyUnknown: 'Untold.', changeable: {} }),
    launch: (prepared) => room.launch({ loadMs: 60_000 }, { digest: prepared.desiredServer.digest }),
  },
  admission: {
    need: (_key, _of, sizeUp) => sizeUp(),
    prepare: () => Promise.resolve(),
    compare: () => Promise.resolve(),
    admit: () => true,
  },
  turns: { ask: () => undefined, forget: () => undefined },
  narrator: { tell: () => undefined, startFailed: () => undefined },
  log: silentLog,
  enqueue: () => undefined,
  isStopped: () => false,
  now: () => 0,
})

const startsIn = (room: ServerRoom, more: Partial<Needed> = {}): ServerStarts =>
  new ServerStarts('a/b', { ...optionsIn(room), ...more } as unknown as ServiceRooms)

test('a restart that was asked for is under way once its server starts, and can be asked for again when that has ended', async () => {
  await using room = await ServerRoom.create()
  const starts = startsIn(room)
  room.servers.onChange((_key, state) => starts.changed(state))
  starts.askRestart()
  expect(starts.isRestartAsked).toBe(true)
  await starts.start({ model }, desiredServer('digest-1'), file)
  starts.askRestart()
  expect(starts.isRestartAsked).toBe(false)
  const { pid } = await room.reached('loading')
  process.kill(pid, 'SIGKILL')
  await room.settled()
  starts.askRestart()
  expect(starts.isRestartAsked).toBe(true)
})

test('after a server that ended before it served, a model that is not what was stored is no longer started', async () => {
  await using room = await ServerRoom.create()
  const starts = startsIn(room, { models: { isIntact: () => Promise.resolve(false) } })
  const first = await starts.start({ model }, desiredServer('digest-1'), file)
  process.kill((await room.reached('loading')).pid, 'SIGKILL')
  await room.settled()
  expect([first, await starts.start({ model }, desiredServer('digest-1'), file)]).toEqual([true, false])
})

test('where nothing is decided any more no start asks for its turn', async () => {
  await using room = await ServerRoom.create()
  const ask = vi.fn<Needed['turns']['ask']>()
  const starts = startsIn(room, { turns: { ask, forget: () => undefined }, isStopped: () => true })
  await starts.start({ model }, desiredServer('digest-1'), file)
  expect(ask).not.toHaveBeenCalled()
})

test.each(['prepare', 'admit'] as const)(
  'a start that breaks at %s gives back its turn, which others wait for',
  async (part) => {
    await using room = await ServerRoom.create()
    const forget = vi.fn<Needed['turns']['forget']>()
    const { admission } = optionsIn(room)
    const breaks = () => {
      throw new Error('It breaks.')
    }
    const starts = startsIn(room, {
      turns: { ask: () => undefined, forget },
      admission: { ...admission, [part]: breaks },
    })
    await expect(starts.start({ model }, desiredServer('digest-1'), file)).rejects.toThrow('It breaks.')
    expect(forget).toHaveBeenCalledWith('a/b')
  },
)

test('the files that a spec names are not looked at for their size where this machine would not start it', async () => {
  await using room = await ServerRoom.create()
  const sizeUp = vi.fn<Needed['launches']['sizeUp']>()
  const { launches } = optionsIn(room)
  const starts = startsIn(room, {
    launches: {
      ...launches,
      sizeUp,
      startProblem: () =>
        Promise.resolve({ message: 'Its file is not a model.', refusal: 'ExtraArgsRejected' } as const),
    },
  })
  await starts.start({ model }, desiredServer('digest-1'), file)
  expect(starts.view).toMatchObject({ kind: 'failed', message: 'Its file is not a model.' })
  await starts.compare({ model }, desiredServer('digest-2'), file)
  expect(sizeUp).not.toHaveBeenCalled()
  expect(starts.replacement('digest-1')).toBeUndefined()
  expect(starts.replacement('digest-2')?.refusal).toMatch(
    /^The new server cannot be started: Its file is not a model\. The previous server keeps serving\. Next attempt at /,
  )
})
