import { closeSync, openSync } from 'node:fs'
import { entriesOf } from '../../../src/agent-core/models/store/files.ts'
import { ownFailure } from '../../../src/agent-core/util/error-code.ts'
import { askActivity } from '../../../src/agent-core/servers/probe.ts'
import { probeHealth } from '../../../src/agent-core/servers/probe.ts'
import { livenessTimings } from '../../../src/agent-core/servers/liveness.ts'
import { Ports, type PortReservation } from '../../../src/agent-core/servers/ports.ts'
import { hasCode } from '../../../src/agent-core/util/files.ts'
import type { StopReport } from '../../../src/agent-core/servers/served-model.ts'
import { messageOf } from '../../../src/agent-core/util/message-of.ts'
import { eventually } from '../../support/eventually.ts'
import { freePorts } from '../../support/free-port.ts'
import { ask, probedBy, ServerRoom, untilInFlight } from './server-room.ts'

const patience = new AbortController().signal

/**
 * A process that may open few files. It starts servers, opens all that it may, and prints what it makes of its servers and ports meanwhile
 * and when it can open files again.
 */
async function takeDescriptors(port: number): Promise<Disposable & { readonly takeAll: () => void }> {
  const taken: number[] = []
  const takeAll = (): void => {
    try {
      for (;;) taken.push(openSync('/dev/null', 'r'))
    } catch (error) {
      if (!hasCode(error, 'EMFILE')) throw error
    }
  }
  // Connections that are being closed give theirs back a moment later.
  do takeAll()
  while ((await probeHealth(port, 1_000, patience)).kind === 'answered')
  return {
    takeAll,
    [Symbol.dispose]: () => {
      for (const descriptor of taken) closeSync(descriptor)
    },
  }
}

let probes = 0
const liveness = { ...livenessTimings, everyMs: 20, followUpMs: 20, misses: 2, hungMisses: 4 }
await using room = await ServerRoom.create({
  liveness,
  ...probedBy((...question) => {
    probes += 1
    return probeHealth(...question)
  }),
})
room.start()
const { pid, port } = await room.reached('ready')
const from = await freePorts(3)
const ports = new Ports()
const reserved = (policy: Parameters<Ports['reserve']>[0]) =>
  ports.reserve(policy).then(
    (reservation: PortReservation) => reservation.port - from,
    (error: unknown) => messageOf(error).replaceAll(String(from), 'PORT'),
  )
const fixed = { kind: 'fixed', port: from + 2 } as const
const range = { kind: 'range', from, to: from + 1 } as const

const meanwhile: unknown[] = []
{
  using _ = await takeDescriptors(port)
  meanwhile.push(await probeHealth(port, 1_000, patience), await askActivity(port, 1_000))
  meanwhile.push(await reserved(range), await reserved(range))
  await reserved(fixed)
  meanwhile.push(await entriesOf(room.folder).catch(ownFailure))
  const soFar = probes
  await eventually(() => probes > soFar + 10)
}
const soFar = probes
await eventually(() => probes > soFar + 3)
const afterwards = [await reserved(fixed), await reserved(range), await reserved(range)]
const state = room.servers.get('a/b')

room.start({ tokenMs: 60 }, {}, 'a/asked')
const asked = await room.reached('ready', { key: 'a/asked' })
const answer = ask(asked.port)
await untilInFlight(asked.port)
let stopping: Promise<StopReport>
{
  using _ = await takeDescriptors(asked.port)
  stopping = room.servers.stop('a/asked')
  await answer
}
const { stopped } = await stopping
process.stdout.write(JSON.stringify({ meanwhile, afterwards, state, pid, answer: await answer, stopped }))
