import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  parseEndpointSlice,
  parseInferenceService,
  parseModel,
  parseService,
} from '../../src/agent-core/kube/resources.ts'
import { runFolder, serverFolders, serviceFolderName } from '../../src/agent-core/servers/run-folder.ts'
import { isBelow, pathBelow } from '../../src/agent-core/util/is-below.ts'
import type { AgentProcess } from '../support/agent-process.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { eventually } from '../support/eventually.ts'

/** Names that would run a command, leave a folder, steer a terminal or pass for another; pieces of them in any order beside them. */
const piece = fc.oneof(
  fc.constantFrom('..', '.', '/', '\\', '$(touch ran)', '`touch ran`', ';touch ran', '*', '~', '-', ' ', '\n', '\0'),
  fc.constantFrom("'", '"', '\u001b]0;x\u0007', '\u202e', '%2e%2e%2f', 'a', 'chat', '0', 'A', 'ä', 'default'),
  fc.string({ maxLength: 8, unit: 'binary' }),
)
const hostileName = fc.oneof(
  fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
  fc.constantFrom('a'.repeat(254), 'a..b', '-a', 'a-', '.a', 'a.', 'a/b', ''),
)
const fuzz = { numRuns: 10_000, seed: 30 }

const readers = {
  InferenceService: parseInferenceService,
  Model: parseModel,
  Service: parseService,
  EndpointSlice: (raw: object) => parseEndpointSlice({ ...raw, addressType: 'IPv4' }),
} as const

function isReadable(read: (raw: object) => unknown, raw: object): boolean {
  try {
    read(raw)
    return true
  } catch (error) {
    if (error instanceof z.ZodError) return false
    throw error
  }
}

const isLabel = (name: string) => name.length <= 63 && /^(?!-)[-a-z0-9]+(?<!-)$/.test(name)
const isSubdomain = (name: string) =>
  name.length <= 253 && name.split('.').every((part) => /^(?!-)[-a-z0-9]+(?<!-)$/.test(part))

test('an object is read by a name that Kubernetes allows, and of ten thousand others by none', () => {
  const seen = { read: 0, refused: 0 }
  const wrong: string[] = []
  const look = (kind: keyof typeof readers, name: string, namespace: string, isAllowed: boolean) => {
    const isRead = isReadable(readers[kind], { metadata: { name, namespace, uid: '1', resourceVersion: '1' } })
    seen[isRead ? 'read' : 'refused'] += 1
    if (isRead !== isAllowed) wrong.push(`${kind} ${JSON.stringify([namespace, name])}`)
  }
  fc.assert(
    fc.property(hostileName, (name) => {
      look('InferenceService', name, 'default', isSubdomain(name))
      look('Service', name, 'default', isLabel(name))
      look('Model', 'chat', name, name === '' || isLabel(name))
      look('EndpointSlice', 'chat', name, name === '' || isLabel(name))
    }),
    fuzz,
  )
  expect(wrong).toEqual([])
  expect(seen.read).toBeGreaterThan(1_000)
  expect(seen.refused).toBeGreaterThan(20_000)
})

test('a path that is built from any name lies in its folder, or is none', () => {
  const seen = { built: 0, refused: 0 }
  const folders = serverFolders('/state')
  const inside = (folder: string, build: () => string) => {
    let built: string
    try {
      built = build()
    } catch {
      seen.refused += 1
      return
    }
    expect(isBelow(path.resolve(built), folder), built).toBe(true)
    seen.built += 1
  }
  fc.assert(
    fc.property(hostileName, hostileName, (name, namespace) => {
      inside('/state', () => pathBelow('/state', name))
      inside('/state/runs', () => runFolder(folders, `${serviceFolderName(`${namespace}/${name}`)}/1`).logFile)
    }),
    fuzz,
  )
  expect(seen.built).toBeGreaterThan(1_000)
  expect(seen.refused).toBeGreaterThan(1_000)
})

describe('what an API server calls an object reaches no path and no shell', () => {
  test('an agent ignores thousands of objects whose names Kubernetes does not allow, says so once, and is not held', async () => {
    const hostile = fc.sample(hostileName, fuzz).filter((name) => !isSubdomain(name))
    expect(hostile.length).toBeGreaterThan(5_000)
    await using api = await apiServerWith(['../../escaped', '$(touch ran)', ...hostile, 'tiny'])
    const isUp = (agent: AgentProcess) => agent.shows(({ cluster }) => cluster.state !== 'connecting', 'a cluster')
    await using watched = await watchedAgent({ kubeconfig: api.kubeconfig, isUp })
    const { agent, health } = watched
    const { services, notices } = await agent.shows((snapshot) => snapshot.services.length > 0 && snapshot, 'a service')
    expect(services.map(({ name }) => name)).toEqual(['tiny'])
    expect(notices.filter((notice) => notice.includes(' are ignored'))).toEqual([
      expect.stringMatching(/^Some inferenceservices .* such as "\.\.\/\.\.\/escaped" in namespace "default"/),
    ])
    expect(agent.log.filter(({ msg }) => msg.startsWith('object ignored'))).toHaveLength(1)
    const names = await readdir(agent.folder, { recursive: true })
    expect(names.filter((name) => name.includes('escaped') || name.includes('ran)'))).toEqual([])
    api.sendAgain()
    await eventually(() => api.lists > 1)
    expect(await health.longest()).toBeLessThan(maxHeld)
  })
})

/** Tells of InferenceServices with any names, which no real API server would take; everything else is empty there. */
async function apiServerWith(names: readonly string[]) {
  const watches = new Set<ServerResponse>()
  let lists = 0
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost')
    response.setHeader('content-type', 'application/json')
    if (url.searchParams.has('watch')) {
      response.flushHeaders()
      watches.add(response)
      return
    }
    const isAsked = url.pathname.endsWith('/inferenceservices')
    if (isAsked) lists += 1
    const items = names.map((name, index) => ({
      metadata: { name, namespace: 'default', uid: String(index), resourceVersion: '1' },
      spec: { modelRef: 'tiny' },
    }))
    response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: isAsked ? items : [] }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const cluster = { name: 'c', cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }
  const kubeconfig = JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c', clusters: [cluster] },
    users: [{ name: 'c', user: { token: 'x' } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'c' } }],
  })
  return {
    kubeconfig,
    /** How often the objects were asked for. */
    get lists() {
      return lists
    },
    /** Has every watch end, and so all objects be asked for again. */
    sendAgain: () => {
      const status = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' }
      for (const watch of watches) watch.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n`)
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
