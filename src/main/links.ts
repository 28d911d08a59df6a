import { z } from 'zod'
import { windowViews, type WindowView } from '../contract/app-bridge.ts'
import { serviceRef } from '../contract/commands.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import type { WindowPlace } from './window-place.ts'

export const linkScheme = 'metalbar'

/** What a link asks to be shown. Whoever writes a page or a mail may write one, so it only ever turns the window. */
export type LinkTarget =
  | { readonly kind: 'window' }
  | { readonly kind: 'view'; readonly view: WindowView }
  | { readonly kind: 'service'; readonly namespace: string; readonly name: string }

const maxLength = 500

/** `metalbar://open`, `metalbar://settings`, `metalbar://service/NAMESPACE/NAME`; undefined for all else, however little it differs. */
export function targetOf(link: string): LinkTarget | undefined {
  if (link.length > maxLength || !link.startsWith(`${linkScheme}://`)) return undefined
  const [place = '', ...rest] = link.slice(`${linkScheme}://`.length).replace(/\/$/, '').split('/')
  if (place === 'service' && rest.length === 2) {
    const [namespace, name] = rest
    const service = serviceRef.safeParse({ namespace, name })
    return service.success ? { kind: 'service', ...service.data } : undefined
  }
  if (rest.length > 0) return undefined
  if (place === 'open') return { kind: 'window' }
  const view = z.enum(windowViews).safeParse(place)
  return view.success ? { kind: 'view', view: view.data } : undefined
}

/** Where in the window that is; undefined = the window as it is, also for a service that is not there. */
export function placeOf(target: LinkTarget, snapshot: AgentSnapshot | undefined): WindowPlace | undefined {
  if (target.kind === 'window') return undefined
  if (target.kind === 'view') return { view: target.view }
  const { namespace, name } = target
  const service = snapshot?.services.find((one) => one.namespace === namespace && one.name === name)
  return service && { service: service.uid }
}
