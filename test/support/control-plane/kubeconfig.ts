import { writeFile } from 'node:fs/promises'
import type { ClusterConnection } from './admin-client.ts'

/** Writes a kubeconfig of one context named `test`; JSON, which every YAML reader reads. @returns the file. */
export async function writeKubeconfig(
  file: string,
  connection: ClusterConnection,
  namespace?: string,
): Promise<string> {
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: connection.server, ...trust(connection) } }],
    users: [{ name: 'test', user: { token: connection.token } }],
    contexts: [
      { name: 'test', context: { cluster: 'test', user: 'test', ...(namespace === undefined ? {} : { namespace }) } },
    ],
  }
  await writeFile(file, JSON.stringify(kubeconfig, null, 2), { mode: 0o600 })
  return file
}

/** Over plain HTTP there is no certificate to verify, which an agent wants to be told. */
const trust = ({ ca }: ClusterConnection) =>
  ca === '' ? { 'insecure-skip-tls-verify': true } : { 'certificate-authority-data': base64(ca) }

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
