import type { ServiceView } from '../../contract/service.ts'
import { Banner } from '../components/banner.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Since } from '../components/time.tsx'
import { absenceWords } from '../words/services.ts'

/** Why this machine does not serve what the cluster wants, and what brings it back. */
export function Absence({ service: { hold, state, message, since } }: { readonly service: ServiceView }) {
  if (state === 'foreign') {
    return (
      <Banner tone="note">
        <p>
          {absenceWords.elsewhere} <Since at={since} />.
        </p>
        <p>{absenceWords.takenBack}</p>
      </Banner>
    )
  }
  if (hold === undefined) return null
  return (
    <Banner tone={hold.by === 'pressure' ? 'warn' : 'note'}>
      {!message.includes(hold.message) && (
        <p>
          <Sentence text={hold.message} />
        </p>
      )}
      <p>
        {absenceWords.held} <Since at={hold.since} />. {absenceWords.back(hold)}
      </p>
    </Banner>
  )
}
