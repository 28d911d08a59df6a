import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { command, type CommandInput } from '../../../src/contract/commands.ts'
import { AgentWorld, inferenceService } from '../../support/agent-world.ts'
import { eventually } from '../../support/eventually.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const crds = join(import.meta.dirname, '../../support/crds')

async function openWorld({ withoutSuspend = false } = {}) {
  const sim = await KubeSim.start({ crds: !withoutSuspend })
  if (withoutSuspend) {
    await using folder = await temporaryFolder()
    for (const file of await readdir(crds)) {
      const text = await readFile(join(crds, file), 'utf8')
      const older = text
        .replaceAll(/^( +)suspend:/gm, '$1notSuspend:')
        .replaceAll(/^ +x-kubernetes-preserve-unknown-fields: true$/gm, '')
      await writeFile(join(folder.dir, file), older)
    }
    await sim.installCrds(folder.dir)
  }
  const world = await AgentWorld.open(sim.connection(), { controller: false })
  const agent = await world.startAgent()
  const service = { namespace: world.namespace, name: 'tiny' }
  const run = (input: CommandInput) => agent.agent.command({ requestId: randomUUID(), command: command.parse(input) })
  const spec = async () => (await world.admin.get(inferenceService('tiny')))?.['spec']
  const close = async () => {
    await world[Symbol.asyncDispose]()
    await sim[Symbol.asyncDispose]()
  }
  return { sim, world, agent, service, run, spec, [Symbol.asyncDispose]: close }
}

test('a definition without spec.suspend: stop scales to zero, and start brings the replicas back', async () => {
  await using room = await openWorld({ withoutSuspend: true })
  await room.world.applyService('tiny', { spec: { replicas: 4 } })
  await room.agent.until('tiny', () => true)
  expect(await room.run({ name: 'stop', service: room.service })).toMatchObject({
    outcome: 'done',
    message: saying(/is scaled to zero replicas in the cluster;/),
  })
  expect(await room.spec()).toMatchObject({ replicas: 0 })
  await room.run({ name: 'start', service: room.service })
  expect(await room.spec()).toMatchObject({ replicas: 4 })
})

test('start makes zero replicas one, whoever scaled down', async () => {
  await using room = await openWorld()
  await room.world.applyService('tiny', { spec: { replicas: 0 } })
  await room.agent.until('tiny', 'stopped')
  expect((await room.run({ name: 'start', service: room.service })).outcome).toBe('done')
  expect(await room.spec()).toMatchObject({ replicas: 1 })
})

test('a change of somebody else in between is read and kept; a conflict that never ends is refused', async () => {
  await using room = await openWorld()
  await room.world.applyService('tiny')
  await room.agent.until('tiny', () => true)
  const conflict = { kind: 'status', code: 409, reason: 'Conflict', message: 'the object has been modified' } as const
  const on = { verb: 'patch', resource: 'inferenceservices' }
  room.sim.faults.add({ on, times: 3, fault: conflict })
  expect((await room.run({ name: 'stop', service: room.service })).outcome).toBe('done')
  expect(await room.spec()).toMatchObject({ suspend: true })

  const endless = room.sim.faults.add({ on, times: Infinity, fault: conflict })
  expect(await room.run({ name: 'start', service: room.service })).toEqual({
    outcome: 'refused',
    by: 'cluster',
    message: `${room.world.namespace}/tiny was not started: the cluster refused it (the object has been modified).`,
  })
  endless.remove()
})

test('replicas that somebody changes while they are being remembered are remembered as changed', async () => {
  await using room = await openWorld()
  const queued = {
    ...inferenceService('tiny'),
    metadata: { name: 'tiny', labels: { 'kueue.x-k8s.io/queue-name': 'macs' } },
    spec: { modelRef: 'tiny', replicas: 3 },
  }
  await room.world.admin.apply(queued)
  await room.agent.until('tiny', () => true)
  // Kueue's label costs a read before the one that the write stands on.
  const read = { verb: 'get', resource: 'inferenceservices', name: 'tiny' }
  const slow = room.sim.faults.add({ on: read, skip: 1, fault: { kind: 'slow-body', bytes: 200, everyMs: 40 } })
  const stopping = room.run({ name: 'stop', service: room.service })
  await eventually(() => slow.hits === 1)
  const reference = { resource: 'inferenceservices', namespace: room.world.namespace, name: 'tiny' }
  room.sim.patch(reference, { spec: { replicas: 5 } })
  expect((await stopping).outcome).toBe('done')
  await room.run({ name: 'start', service: room.service })
  expect(await room.spec()).toMatchObject({ replicas: 5 })
})

test('the words of a quota webhook are shown, with the stop on this machine as the other way', async () => {
  await using room = await openWorld()
  await room.world.applyService('tiny')
  await room.agent.until('tiny', () => true)
  const message = 'admission webhook "quota.example" denied the request: ask the platform team'
  room.sim.faults.add({
    on: { verb: 'patch', resource: 'inferenceservices' },
    fault: { kind: 'status', code: 403, reason: 'Forbidden', message },
  })
  expect(await room.run({ name: 'stop', service: room.service })).toMatchObject({
    outcome: 'refused',
    by: 'cluster',
    message: `${room.world.namespace}/tiny was not stopped: the cluster refused it (${message}).`,
    instead: { command: { name: 'stop', scope: 'here' } },
  })
})

test('what Kueue holds back is left to its queue', async () => {
  await using room = await openWorld()
  const queued = {
    ...inferenceService('tiny'),
    metadata: { name: 'tiny', labels: { 'kueue.x-k8s.io/queue-name': 'macs' } },
    spec: { modelRef: 'tiny', suspend: true },
  }
  await room.world.admin.apply(queued)
  await room.agent.until('tiny', 'stopped')
  expect(await room.run({ name: 'start', service: room.service })).toMatchObject({
    outcome: 'done',
    message: saying(/it starts when the Kueue queue macs admits it/),
  })
  expect(await room.spec()).toMatchObject({ suspend: true })
})

function saying(pattern: RegExp): unknown {
  return expect.stringMatching(pattern)
}
