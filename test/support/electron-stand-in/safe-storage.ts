import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { app } from './app.ts'

/** The file that stands for the system's keychain; without it there is none. */
export const keychainVariable = 'ELECTRON_STAND_IN_KEYCHAIN'

const file = process.env[keychainVariable]
const prefix = Buffer.from('v10')
const ivBytes = 12
const tagBytes = 16

/** Electron names the item after the app. */
const item = () => `${app.getName()} Safe Storage`

function key(): Buffer {
  if (!app.isReady()) throw new Error('safeStorage cannot be used before app is ready')
  if (file === undefined) throw new Error('Error while using the keychain: there is none.')
  const items = existsSync(file) ? z.record(z.string(), z.string()).parse(JSON.parse(readFileSync(file, 'utf8'))) : {}
  const made = items[item()] ?? randomBytes(32).toString('hex')
  writeFileSync(file, JSON.stringify({ ...items, [item()]: made }))
  return Buffer.from(made, 'hex')
}

export const safeStorage = {
  getSelectedStorageBackend: () => (file === undefined ? 'basic_text' : 'gnome_libsecret'),

  isAsyncEncryptionAvailable: () => Promise.resolve(file !== undefined),

  async encryptStringAsync(text: string): Promise<Buffer> {
    const iv = randomBytes(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', await Promise.resolve(key()), iv)
    const content = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([prefix, iv, cipher.getAuthTag(), content])
  },

  async decryptStringAsync(encrypted: Buffer): Promise<{ result: string; shouldReEncrypt: boolean }> {
    const iv = encrypted.subarray(prefix.length, prefix.length + ivBytes)
    const tag = encrypted.subarray(prefix.length + ivBytes, prefix.length + ivBytes + tagBytes)
    const decipher = createDecipheriv('aes-256-gcm', await Promise.resolve(key()), iv).setAuthTag(tag)
    const content = encrypted.subarray(prefix.length + ivBytes + tagBytes)
    return { result: decipher.update(content, undefined, 'utf8') + decipher.final('utf8'), shouldReEncrypt: false }
  },
}
