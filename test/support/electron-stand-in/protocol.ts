import { app } from './app.ts'

type Handler = (request: Request) => Response | Promise<Response>

const handlers = new Map<string, Handler>()
const privileged = new Set<string>()

export const protocol = {
  registerSchemesAsPrivileged(schemes: readonly { readonly scheme: string }[]): void {
    if (app.isReady()) throw new Error('protocol.registerSchemesAsPrivileged should be called before app is ready')
    for (const { scheme } of schemes) privileged.add(scheme)
  },
  handle(scheme: string, handler: Handler): void {
    if (!privileged.has(scheme)) throw new Error(`The scheme ${scheme} was not registered as privileged`)
    handlers.set(scheme, handler)
  },
}

/** What the app answers for a URL of its own scheme. */
export async function answerFor(url: string, method = 'GET'): Promise<Response> {
  const handler = handlers.get(new URL(url).protocol.replace(/:$/, ''))
  return handler ? handler(new Request(url, { method })) : Response.error()
}

/** Chromium without Electron knows no scheme of ours: a page sees `app://metalbar/…` as an origin that exists nowhere. */
const suffix = '.electron.invalid'

export function outside(url: string): string {
  const { protocol: scheme, host, pathname, search, hash } = new URL(url)
  return `https://${host}.${scheme.replace(/:$/, '')}${suffix}${pathname}${search}${hash}`
}

/** Undefined for what is no page of the app. */
export function inside(url: string): string | undefined {
  const { host, pathname, search, hash } = new URL(url)
  const [name, scheme] = host.endsWith(suffix) ? host.slice(0, -suffix.length).split('.') : []
  return name === undefined || scheme === undefined ? undefined : `${scheme}://${name}${pathname}${search}${hash}`
}

/** As Electron's frames say it: Node knows no origin of a scheme it does not know. */
export function originOf(url: string): string {
  const { protocol: scheme, host } = new URL(url)
  return `${scheme}//${host}`
}
