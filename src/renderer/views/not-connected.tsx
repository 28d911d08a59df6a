import { Button } from '../components/button.tsx'
import { ErrorGlyph, Spinner } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { LocalUntil } from '../components/time.tsx'
import type { Connection } from '../link/connection.ts'
import { useWindow } from '../store.ts'
import { connectionWords } from '../words/connection.ts'
import styles from './page.module.css'

/** In place of the window's content while there is none. */
export function NotConnected({ connection }: { readonly connection: Connection }) {
  const reconnect = useWindow((state) => state.reconnect)
  if (connection.state === 'connecting' || connection.state === 'live') {
    return (
      <main className={styles['page']}>
        <Spinner />
        <h1 className={styles['title']}>{connectionWords.connecting}</h1>
      </main>
    )
  }
  return (
    <main className={styles['page']}>
      <ErrorGlyph />
      <div role="alert">
        <h1 className={styles['title']}>
          {connection.state === 'gone' ? connectionWords.noAgent : connectionWords.noAccess}
        </h1>
        <p>
          <Sentence text={connection.message} />
        </p>
      </div>
      {connection.state === 'gone' && (
        <p className={styles['aside']}>
          {connectionWords.nextTry} <LocalUntil at={connection.retryAt} />.
        </p>
      )}
      <Button onPress={reconnect}>{connectionWords.tryNow}</Button>
    </main>
  )
}
