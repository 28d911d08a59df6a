import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { clusterChecks } from '../../src/agent-core/doctor/cluster-checks.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { rightsOfAgent } from '../../src/contract/cluster.ts'
import type { DoctorFinding } from '../../src/contract/doctor.ts'
import { apiWorlds, useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import type { Rule } from '../support/kube-sim/access.ts'
import { KubeSim, type KubeSimOptions } from '../support/kube-sim/kube-sim.ts'
import { foundBy, patientOf, type StatedPatient } from '../support/patient.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = await temporaryFolder()
afterAll(() => folder[Symbol.asyncDispose]())
let files = 0
const real = useRealApiServer()

type Found = Readonly<Record<string, DoctorFinding>>

async function look(connection: ClusterConnection, namespace: string, stated: StatedPatient = {}): Promise<Found> {
  const file = await writeKubeconfig(join(folder.dir, `kubeconfig-${(files += 1)}`), connection)
  return foundBy(
    clusterChecks,
    patientOf({
      context: () => PinnedContext.load({ file, env: {} }),
      settings: { namespace },
      ...stated,
    }),
  )
}

const verdictsOf = (found: Found) => Object.fromEntries(Object.entries(found).map(([id, { verdict }]) => [id, verdict]))

const asRules = (rules: (typeof rightsOfAgent)['needed']): Rule[] =>
  rules.map(({ group, resources, verbs }) => ({ apiGroups: [group], resources, verbs }))

describe.each(apiWorlds)('the doctor asks $name', ({ use }) => {
  const world = use()

  test('as the administrator, whose rights are too wide, and finds all else in order', async () => {
    const { connection, namespace } = world()
    const found = await look(connection, namespace)
    expect(verdictsOf(found)).toEqual({
      ...{ kubeconfig: 'pass', 'client-certificate': 'notApplicable', 'api-server': 'pass', llmkube: 'pass' },
      ...{ namespace: 'pass', rights: 'pass', 'cluster-admin': 'warn', clock: 'pass' },
    })
    expect(found['api-server']?.says).toMatch(/^https?:\/\/\S+ is Kubernetes v\d\S* and answered in \d+ ms\.$/)
    expect(found['rights']?.says).toBe('This login has every right that the agent uses.')
  })

  test('with the rights that serving needs: enough, and what it lacks besides is named', async () => {
    const { connection } = await world().restricted(asRules(rightsOfAgent.needed))
    const found = await look(connection, world().namespace)
    expect([found['rights']?.verdict, found['cluster-admin']?.verdict]).toEqual(['pass', 'pass'])
    expect(found['rights']?.says).toMatch(
      /it lacks the right to create, patch, delete inferenceservices; create, delete models/,
    )
  })
})

describe('a cluster', () => {
  const simulated = async (options: KubeSimOptions = {}) => {
    const sim = await KubeSim.start({ protocol: 'http', ...options })
    onTestFinished(() => sim[Symbol.asyncDispose]())
    return sim
  }

  test.each([
    [0, 'pass', /less than 10 s/],
    [-30_000, 'warn', /30 s ahead|29 s ahead|31 s ahead/],
  ])('has a clock that is %s ms off', async (clockOffsetMs, verdict, says) => {
    const sim = await simulated()
    sim.clockOffsetMs = clockOffsetMs
    expect((await look(sim.connection(), 'default'))['clock']).toMatchObject({
      verdict,
      says: expect.stringMatching(says) as string,
    })
  })

  test('keeps its version to itself, or is busy: it is an API server all the same', async () => {
    const sim = await simulated()
    sim.faults.add({
      ...{ on: { path: /^\/version/ }, times: Infinity },
      fault: { kind: 'status', code: 403, reason: 'Forbidden' },
    })
    expect((await look(sim.connection(), 'default'))['api-server']).toMatchObject({
      verdict: 'pass',
      says: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+ is an API server and answered in/) as string,
    })
  })

  test('has a proxy before it that answers in its place: it is no API server that does', async () => {
    const proxy = createHttpServer((_request, response) => response.writeHead(403).end('<h1>Forbidden</h1>'))
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void proxy.close())
    const { port } = proxy.address() as AddressInfo
    const found = await look({ server: `http://127.0.0.1:${port}`, ca: '', token: 't' }, 'default')
    expect(found['api-server']).toMatchObject({
      verdict: 'fail',
      says: expect.stringMatching(/^The program at \S+ does not answer as an API server/) as string,
    })
  })

  test('accepts connections and never answers: every question is answered all the same', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    let asked = 0
    server.on('connection', () => (asked += 1))
    const port = (server.address() as AddressInfo).port
    const found = await look({ server: `https://127.0.0.1:${port}`, ca: real().connection.ca, token: 't' }, 'default')
    expect(asked).toBe(1)
    expect(found['api-server']).toMatchObject({
      verdict: 'fail',
      says: expect.stringContaining('no answer within 5 s') as string,
    })
    expect(found['rights']?.verdict).toBe('notApplicable')
    expect(Object.keys(found)).toHaveLength(clusterChecks.length)
  })
})
