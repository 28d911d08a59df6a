import { createServer } from 'node:net'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
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
import { freePort } from '../support/free-port.ts'
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
      ...{ kubeconfig: 'pass', 'credential-plugin': 'notApplicable', 'api-server': 'pass', llmkube: 'pass' },
      ...{ namespace: 'pass', rights: 'pass', 'cluster-admin': 'warn', clock: 'pass' },
    })
    expect(found['api-server']?.says).toMatch(/^https?:\/\/\S+ is Kubernetes v\d\S* and answered in \d+ ms\.$/)
    expect(found['rights']?.says).toBe('It may do all of that.')
  })

  test('with the rights that serving needs: enough, and what it lacks besides is named', async () => {
    const { connection } = await world().restricted(asRules(rightsOfAgent.needed))
    const found = await look(connection, world().namespace)
    expect([found['rights']?.verdict, found['cluster-admin']?.verdict]).toEqual(['pass', 'pass'])
    expect(found['rights']?.says).toMatch(
      /it lacks the right to create, patch, delete inferenceservices; create, delete models/,
    )
  })

  test('with one right less: it is named, with the command that gives it', async () => {
    const rules = asRules(rightsOfAgent.needed).map((rule) =>
      rule.resources.includes('endpointslices') ? { ...rule, verbs: ['get', 'list', 'watch'] } : rule,
    )
    const { connection } = await world().restricted(rules)
    expect((await look(connection, world().namespace))['rights']).toMatchObject({
      ...{ verdict: 'fail', says: 'It lacks the right to create, patch, delete endpointslices.' },
      action: { shell: 'metal-agent rights' },
    })
  })

  test('for a namespace that is not there', async () => {
    const found = await look(world().connection, 'nowhere-at-all')
    expect(found['namespace']).toMatchObject({
      verdict: 'fail',
      says: expect.stringContaining('The namespace "nowhere-at-all" does not exist') as string,
    })
  })

  test('with a token that it does not know', async () => {
    const found = await look({ ...world().connection, token: 'wrong' }, world().namespace)
    expect(found['api-server']).toMatchObject({
      verdict: 'fail',
      says: expect.stringContaining('does not accept the credentials') as string,
    })
    expect(found['rights']).toMatchObject({ verdict: 'notApplicable' })
  })
})

test('the doctor asks a server with the certificate of another authority', async () => {
  await using sim = await KubeSim.start({ protocol: 'https' })
  const { ca } = real().connection
  const found = await look({ ...sim.connection(), ca }, 'default')
  expect(found['api-server']?.says).toMatch(/^The certificate of https:\/\/127\.0\.0\.1:\d+ is not one/)
})

describe('a cluster of which something is missing', () => {
  const simulated = async (options: KubeSimOptions = {}) => {
    const sim = await KubeSim.start({ protocol: 'http', ...options })
    onTestFinished(() => sim[Symbol.asyncDispose]())
    return sim
  }

  test('has no LLMKube: that is the one failure, with the command that installs it', async () => {
    const sim = await simulated({ crds: false })
    const found = await look(sim.connection(), 'default')
    expect(found['llmkube']).toMatchObject({
      verdict: 'fail',
      says: expect.stringMatching(/does not have LLMKube's API group/) as string,
      action: { shell: expect.stringMatching(/helm install llmkube/) as string },
    })
  })

  test.each([
    [0, 'pass', /less than 10 s/],
    [-30_000, 'warn', /30 s ahead|29 s ahead|31 s ahead/],
    [200_000, 'fail', /3 min behind/],
  ])('has a clock that is %s ms off', async (clockOffsetMs, verdict, says) => {
    const sim = await simulated()
    sim.clockOffsetMs = clockOffsetMs
    expect((await look(sim.connection(), 'default'))['clock']).toMatchObject({
      verdict,
      says: expect.stringMatching(says) as string,
    })
  })

  test('is not there: nobody listens, and the other questions do not apply', async () => {
    const found = await look({ server: `http://127.0.0.1:${await freePort()}`, ca: '', token: 't' }, 'default')
    expect(found['api-server']?.says).toMatch(/^Nothing is listening at http:\/\/127\.0\.0\.1:\d+/)
    expect(['llmkube', 'namespace', 'rights', 'cluster-admin', 'clock'].map((id) => found[id]?.verdict)).toEqual(
      Array<string>(5).fill('notApplicable'),
    )
  })

  test('has a name that nobody knows', async () => {
    const found = await look({ server: 'https://metalbar.invalid:6443', ca: '', token: 't' }, 'default')
    expect(found['api-server']?.says).toMatch(/^The name metalbar\.invalid is not known here/)
  })

  test('accepts connections and never answers: every question is answered all the same', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const begun = performance.now()
    const port = (server.address() as AddressInfo).port
    const found = await look({ server: `https://127.0.0.1:${port}`, ca: real().connection.ca, token: 't' }, 'default')
    expect(performance.now() - begun).toBeLessThan(10_000)
    expect(found['api-server']).toMatchObject({
      verdict: 'fail',
      says: expect.stringContaining('no answer within 5 s') as string,
    })
    expect(found['rights']?.verdict).toBe('notApplicable')
    expect(Object.keys(found)).toHaveLength(clusterChecks.length)
  })
})

describe('a kubeconfig', () => {
  test('that is not there is one sentence, and the cluster is not asked', async () => {
    const file = join(folder.dir, 'none')
    const found = await foundBy(clusterChecks, patientOf({ context: () => PinnedContext.load({ file, env: {} }) }))
    expect(found['kubeconfig']).toMatchObject({
      verdict: 'fail',
      says: expect.stringContaining(`There is no kubeconfig at ${file}`) as string,
    })
    expect(found['api-server']?.verdict).toBe('notApplicable')
  })

  test('that logs in by a program that this PATH has not says which, and by one that it has where', async () => {
    const naming = async (command: string) => {
      const file = join(folder.dir, `kubeconfig-${(files += 1)}`)
      const user = { exec: { apiVersion: 'client.authentication.k8s.io/v1', command, interactiveMode: 'Never' } }
      const cluster = { server: `http://127.0.0.1:${await freePort()}`, 'insecure-skip-tls-verify': true }
      const context = { cluster: 'a', user: 'a' }
      const kubeconfig = {
        ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'a' },
        clusters: [{ name: 'a', cluster }],
        users: [{ name: 'a', user }],
        contexts: [{ name: 'a', context }],
      }
      await writeFile(file, JSON.stringify(kubeconfig))
      return foundBy(
        clusterChecks,
        patientOf({ context: () => PinnedContext.load({ file, env: {} }), env: { PATH: '/usr/bin:/bin' } }),
      )
    }
    expect((await naming('aws-that-is-not-here'))['credential-plugin']).toMatchObject({
      verdict: 'fail',
      says: expect.stringMatching(/logs in by aws-that-is-not-here, which is not on the PATH/) as string,
    })
    expect((await naming('sh'))['credential-plugin']).toMatchObject({
      verdict: 'pass',
      says: expect.stringMatching(/^It is \/(usr\/)?bin\/sh\.$/) as string,
    })
  })
})
