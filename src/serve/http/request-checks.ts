import type { IncomingHttpHeaders } from 'node:http'
import { isFromAnotherPage } from '../../agent-core/util/loopback-server.ts'
import { HttpRefusal } from './http-refusal.ts'

/**
 * Throws {@link HttpRefusal} for what another page made a browser ask. A program that is no browser sends neither header, and has
 * no key either. The Host was looked at before, so that a page under a foreign name that points here comes not even this far.
 */
export function checkOrigin(headers: IncomingHttpHeaders): void {
  if (!isFromAnotherPage(headers)) return
  throw new HttpRefusal({ status: 403, code: 'refused', message: 'Another page asked for this, and only our own may.' })
}

/** Throws {@link HttpRefusal}. A form can send no JSON, and a script of another page not without asking first. */
export function checkContentType({ 'content-type': type = '' }: IncomingHttpHeaders): void {
  if (/^application\/json\s*(;|$)/i.test(type)) return
  throw new HttpRefusal({ status: 415, code: 'misunderstood', message: 'A request must be sent as application/json.' })
}

/** Throws {@link HttpRefusal}. */
export function checkMethod(method: string | undefined, allowed: readonly string[]): void {
  if (method !== undefined && allowed.includes(method)) return
  const allow = allowed.join(', ')
  throw new HttpRefusal({
    status: 405,
    code: 'misunderstood',
    message: `Here is answered: ${allow}.`,
    headers: { allow },
  })
}

/** Of `Authorization: Bearer …`. */
export function bearerIn({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([\w-]{1,200})$/i.exec(authorization)?.[1]
}
