import { expect, test } from 'vitest'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import type { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { resources } from '../../../src/agent-core/kube/resources.ts'
import { settledWrite, type Versioned } from '../../../src/agent-core/publishing/writes.ts'

const versioned = (resourceVersion: string): Versioned => ({ metadata: { uid: 'u', resourceVersion } })

/** The first patch is refused; the server holds `held`, the cache `known`. */
async function write(known: string, held: string) {
  const patched: unknown[] = []
  const api = {
    get: () => Promise.resolve(versioned(held)),
    mergePatch: (_resource: unknown, _namespace: string, _name: string, body: unknown) => {
      patched.push(body)
      return patched.length === 1
        ? Promise.reject(new ApiError('not acceptable', { code: 422 }))
        : Promise.resolve(versioned('9'))
    },
  }
  const { kind } = await settledWrite<Versioned, undefined>({
    api: api as unknown as KubeApi,
    store: { resource: resources.services, parse: (raw) => raw as Versioned, learn: () => undefined },
    namespace: 'ns',
    name: 'a',
    known: versioned(known),
    decide: (current) =>
      current ? { do: 'patch', object: current, body: { metadata: {} } } : { do: 'stop', result: undefined },
    signal: new AbortController().signal,
  })
  return { kind, patched }
}

test('what the server does not accept is refused, unless the object was another by then: that is decided again', async () => {
  expect(await write('1', '1')).toMatchObject({ kind: 'refused', patched: [{ metadata: { resourceVersion: '1' } }] })
  expect(await write('1', '2')).toMatchObject({
    kind: 'written',
    patched: [{ metadata: { resourceVersion: '1' } }, { metadata: { uid: 'u', resourceVersion: '2' } }],
  })
})

test('a creation that finds no namespace is refused at once, and what went before it was written is decided again', async () => {
  const seen: string[] = []
  const notFound = (what: string) => () => {
    seen.push(what)
    return Promise.reject(new ApiError('not found', { code: 404 }))
  }
  const api = { get: notFound('get'), create: notFound('create'), mergePatch: notFound('patch') }
  const settled = (known: Versioned | undefined) =>
    settledWrite<Versioned, undefined>({
      api: api as unknown as KubeApi,
      store: { resource: resources.services, parse: (raw) => raw as Versioned, learn: () => undefined },
      namespace: 'gone',
      name: 'a',
      known,
      decide: (current) =>
        current ? { do: 'patch', object: current, body: { metadata: {} } } : { do: 'create', body: {} },
      signal: new AbortController().signal,
    })
  expect(await settled(undefined)).toMatchObject({ kind: 'refused', message: 'not found' })
  expect(seen.splice(0)).toEqual(['create', 'get'])
  expect(await settled(versioned('1'))).toMatchObject({ kind: 'refused' })
  expect(seen).toEqual(['patch', 'get', 'create', 'get'])
})
