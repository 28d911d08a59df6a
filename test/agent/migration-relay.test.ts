import { describe, expect, test } from 'vitest'
import { identityFolder, readRelayIdentity, relayIdentity } from '../../src/agent-core/gateway/relay-identity.ts'
import { inspect, type Inspection } from '../../src/installation/migration/inspect.ts'
import { migrate, undo } from '../../src/installation/migration/migrate.ts'
import { MigrationRecord } from '../../src/installation/migration/record.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { exists } from '../support/exists.ts'
import { freePort } from '../support/free-port.ts'
import { GoAgentWorld } from '../support/go-agent/go-agent-world.ts'
import { Client, Controllers, Relays } from '../support/relayed-world.ts'

const version = 'v0.10.1'

const look = (scene: GoAgentWorld): Promise<Inspection> =>
  inspect(scene.world(), { plist: undefined, ownFlags: [], stopsOthers: false, begun: undefined })

describe('a move from a Go agent in relay mode', () => {
  const api = useRealApiServer()

  test('keeps what relays know this machine by, so that no relay is started again, cuts no answer off, and has one time without an answer, as --undo has', async () => {
    await using scene = await GoAgentWorld.open(api().connection, { controller: false })
    await using relays = new Relays(scene.cluster)
    await using controllers = new Controllers(api().connection, scene.cluster, relays)
    await controllers.be('0.10')
    relays.ingressPort = await freePort()
    await scene.makeGoIdentity()
    for (const name of ['tiny', 'other']) await scene.apply(name)
    const args = ['--ingress-port', String(relays.ingressPort)]
    await scene.startGoAgent({ version, args }, ['tiny-agent', 'other-agent'])
    const pinBefore = (await readRelayIdentity(scene.goIdentity))?.pin
    const earlier = await relayIdentity(scene.stateDir)
    await using client = new Client(api().connection, scene.cluster)
    await client.served(20)
    const failedBefore = client.failures.length

    const inspection = await look(scene)
    expect(inspection.problems).toEqual([])
    expect(inspection.flags).toEqual(
      expect.arrayContaining(['--publish=relay', `--ingress-port=${relays.ingressPort}`]),
    )
    expect(inspection.kept.at(-1)).toContain(`certificate and key of ${scene.goIdentity}.`)
    const record = await MigrationRecord.open(scene.stateDir)
    const outagesBefore = client.outages
    const result = await migrate(scene.world(), inspection, record)
    expect(result).toMatchObject({ outcome: 'done', isWell: true })
    await client.served(20)
    expect(client.outages - outagesBefore).toBeLessThanOrEqual(1)
    expect((await readRelayIdentity(identityFolder(scene.stateDir)))?.pin).toBe(pinBefore)
    expect(scene.told.filter((one) => one.includes('presents the key that relays know; its server'))).toHaveLength(2)
    expect(await scene.cluster.published('tiny-agent')).toMatchObject({ port: relays.ingressPort, ready: true })
    expect(await scene.cluster.publishedKinds('tiny')).toEqual(['Service'])
    expect(await exists(scene.plistFile)).toBe(false)

    await undo(scene.world(), record)
    await scene.untilPublished('tiny-agent')
    await client.served(20)
    expect(client.outages - outagesBefore).toBeLessThanOrEqual(2)
    expect((await relayIdentity(scene.stateDir)).pin).toBe(earlier.pin)
    expect((await readRelayIdentity(scene.goIdentity))?.pin).toBe(pinBefore)
    expect(await exists(scene.plistFile)).toBe(true)
    // One for each service: with another pin there would be a second.
    expect([relays.count, relays.pinMismatches]).toEqual([2, 0])
    const answers = client.failures.slice(failedBefore)
    expect(answers.filter((one) => !/has no endpoint|: 50[23] /.test(one))).toEqual([])
  })
})
