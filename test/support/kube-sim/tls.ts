import { certified } from '../certificates.ts'

export interface Identity {
  readonly key: string
  /** Its own authority: clients verify it by trusting it. */
  readonly certificate: string
}

const names = [
  { type: 'ip', value: '127.0.0.1' },
  { type: 'dns', value: 'localhost' },
] as const
let identity: Promise<Identity> | undefined

/** A throw-away certificate for this host, one per process. */
export function throwAwayIdentity(): Promise<Identity> {
  identity ??= certified('kube-sim', { names, isAuthority: true }).then(({ cert, key }) => ({ key, certificate: cert }))
  return identity
}
