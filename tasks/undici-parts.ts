import { createRequire } from 'node:module'
import path from 'node:path'
import type { Plugin } from 'vite'

const folder = path.dirname(createRequire(import.meta.url).resolve('undici'))
const id = '\0undici-parts'
const file = (name: string): string => JSON.stringify(path.join(folder, 'lib', name))

/** Loads all of `node:http2` as it is loaded itself, which every start would wait for. Without it no connection may offer HTTP/2. */
const http2 = path.join(folder, 'lib/dispatcher/client-h2.js')
const noHttp2 = `module.exports = () => { throw new Error('HTTP/2 is left out of this build') }`
const connector = path.join(folder, 'lib/core/connect.js')
const [offersHttp2, offersNone] = ['allowH2 = allowH2 != null ? allowH2 : true', 'allowH2 = false']

/**
 * Undici's entry loads all of it, of which most (mocks, caches, WebSocket, cookies, EventSource) is never used here, and fetch only for
 * models from elsewhere: a third of the bundle, and megabytes of memory. The build fails where anything else is imported from it.
 */
export function undiciParts(): Plugin {
  return {
    name: 'undici-parts',
    enforce: 'pre',
    resolveId: (source) => (source === 'undici' ? id : undefined),
    load: (asked) => (asked === id ? entry : asked === http2 ? noHttp2 : undefined),
    transform(code, asked) {
      if (asked !== connector) return undefined
      if (!code.includes(offersHttp2)) this.error(`undici's connector no longer says "${offersHttp2}".`)
      return { code: code.replace(offersHttp2, offersNone), map: null }
    },
  }
}

/** As undici's own entry does it, for what is asked here: an address and options, and a promise for the answer. */
const entry = `
import Dispatcher from ${file('dispatcher/dispatcher.js')}
import sendRequest from ${file('api/api-request.js')}
import { getGlobalDispatcher } from ${file('global.js')}
export { default as Agent } from ${file('dispatcher/agent.js')}
export { default as ProxyAgent } from ${file('dispatcher/proxy-agent.js')}
export { default as EnvHttpProxyAgent } from ${file('dispatcher/env-http-proxy-agent.js')}

Dispatcher.prototype.request = sendRequest

export function request(address, { dispatcher = getGlobalDispatcher(), ...options } = {}) {
  const { origin, pathname, search } = new URL(address)
  return dispatcher.request({ ...options, origin, path: pathname + search, method: options.method ?? 'GET' })
}

export async function fetch(...request) {
  const { default: web } = await import(${file('web/fetch/index.js')})
  return await web.fetch(...request)
}
`
