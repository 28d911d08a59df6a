import { Button } from '../components/button.tsx'
import { ErrorGlyph, Spinner } from '../components/glyph.tsx'
import { LocalUntil } from '../components/time.tsx'
import type { Connection } from '../link/connection.ts'
import { useWindow } from '../store.ts'
import styles from './page.module.css'

/** In place of the window's content while there is none. */
export function NotConnected({ connection }: { readonly connection: Connection }) {
  const reconnect = useWindow((state) => state.reconnect)
  if (connection.state === 'connecting' || connection.state === 'live') {
    return (
      <main className={styles['page']}>
        <Spinner />
        <h1 className={styles['title']}>Connecting to the agent…</h1>
      </main>
    )
  }
  return (
    <main className={styles['page']} role="alert">
      <ErrorGlyph />
      <h1 className={styles['title']}>{connection.state === 'gone' ? 'No agent answers' : 'No access to the agent'}</h1>
      <p>{connection.message}</p>
      {connection.state === 'gone' && (
        <p className={styles['aside']}>
          Next try <LocalUntil at={connection.retryAt} />.
        </p>
      )}
      <Button onPress={reconnect}>Try now</Button>
    </main>
  )
}
