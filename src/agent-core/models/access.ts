import type { Access, Manifest } from './manifest.ts'
import type { RemoteFile } from './remote-file.ts'

/** Whether the bytes may be given to the namespace without asking their source once more. `''` is the person at this machine. */
export const isOpenTo = ({ access }: Pick<Manifest, 'access'>, namespace: string): boolean =>
  access !== undefined && (access.isPublic || access.namespaces.includes(namespace))

/** No login of a namespace fetched it: another agent, or a person, put it there. */
export const isFound = ({ access, origin }: Pick<Manifest, 'access' | 'origin'>): boolean =>
  access === undefined && origin === 'adopted'

/** After the source gave, or would give, the files to the namespace; `isPublic`: to everybody; `isByLogin`: for a login that was sent. */
export function accessAfter(
  before: Access | undefined,
  {
    namespace,
    isPublic,
    isByLogin = false,
  }: { readonly namespace: string; readonly isPublic: boolean; readonly isByLogin?: boolean },
): Access {
  const namespaces = [...new Set([...(before?.namespaces ?? []), namespace])].slice(-maxNamespaces)
  return {
    isPublic: isPublic || before?.isPublic === true,
    namespaces,
    ...((isByLogin || before?.isByLogin === true) && { isByLogin: true }),
  }
}

/** The others are asked again. */
const maxNamespaces = 1_000

/** True where the Hub itself stated this digest, which it does only to logins that may read the repository; a digest that a Model states proves nothing. */
export const isVouchedFor = ({ hub, blob, sha256 }: Pick<RemoteFile, 'hub' | 'blob' | 'sha256'>): boolean =>
  hub !== undefined && sha256 !== undefined && blob === sha256
