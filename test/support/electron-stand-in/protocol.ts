import { app } from './app.ts'
import { refuseUnknown } from './electron-types.ts'

type Handler = (request: Request) => Response | Promise<Response>

interface Privileges {
  readonly standard?: boolean
  readonly secure?: boolean
  readonly bypassCSP?: boolean
  readonly supportFetchAPI?: boolean
}
interface CustomScheme {
  readonly scheme: string
  readonly privileges?: Privileges
}

const handlers = new Map<string, Handler>()
let privileged: ReadonlyMap<string, Privileges> | undefined

export const protocol = {
  registerSchemesAsPrivileged(schemes: readonly CustomScheme[]): void {
    if (app.isReady()) throw new Error('protocol.registerSchemesAsPrivileged should be called before app is ready')
    if (privileged) throw new Error('protocol.registerSchemesAsPrivileged may be called once')
    for (const { privileges = {} } of schemes) refuseUnknown('Privileges', privileges)
    privileged = new Map(schemes.map(({ scheme, privileges = {} }) => [scheme, privileges]))
  },
  handle(scheme: string, handler: Handler): void {
    app.mustBeReady('protocol.handle cannot be used')
    if (handlers.has(scheme)) throw new Error(`Failed to register protocol: ${scheme}`)
    handlers.set(scheme, handler)
  },
}

/** What the app answers for a URL of its own scheme, unchanged. */
export async function answerFor(url: string, method = 'GET'): Promise<Response> {
  const handler = handlers.get(schemeOf(url))
  return handler ? handler(new Request(url, { method })) : Response.error()
}

const schemeOf = (url: string): string => new URL(url).protocol.replace(/:$/, '')

export const privilegesOf = (url: string): Privileges => privileged?.get(schemeOf(url)) ?? {}

/** Chromium without Electron knows no scheme of ours: a page sees `app://metalbar/…` as an origin that exists nowhere. */
const suffix = '.electron.invalid'

/** Without `secure` it is no secure context, which has no clipboard and no crypto.randomUUID. */
export function outside(url: string): string {
  const { host, pathname, search, hash } = new URL(url)
  const scheme = privilegesOf(url).secure === true ? 'https' : 'http'
  return `${scheme}://${host}.${schemeOf(url)}${suffix}${pathname}${search}${hash}`
}

/** Undefined for what is no page of the app. */
export function inside(url: string): string | undefined {
  const { host, pathname, search, hash } = new URL(url)
  const [name, scheme] = host.endsWith(suffix) ? host.slice(0, -suffix.length).split('.') : []
  return name === undefined || scheme === undefined ? undefined : `${scheme}://${name}${pathname}${search}${hash}`
}

/** Relative addresses, origins and with them storage are of `standard` schemes alone. */
export const isStandard = (url: string): boolean => privilegesOf(url).standard === true

/** As Electron's frames say it: Node knows no origin of a scheme it does not know. */
export function originOf(url: string): string {
  const { protocol: scheme, host } = new URL(url)
  return privileged && !isStandard(url) ? 'null' : `${scheme}//${host}`
}
