import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

/** A built window in miniature. */
export async function writeWindow(folder: string): Promise<void> {
  await mkdir(path.join(folder, 'assets'), { recursive: true })
  await writeFile(path.join(folder, 'index.html'), '<meta property="csp-nonce" nonce="__CSP_NONCE__"><title>W</title>')
  await writeFile(path.join(folder, 'assets/index-Ab3_-xYz.js'), 'export {}')
  await writeFile(path.join(folder, 'assets/plain.css'), 'p {}')
}
