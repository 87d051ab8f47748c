"""One code of a second factor, used several times at once."""

from functools import partial

import pytest
from django.utils import timezone

from tests.factories import make_user
from tests.second_factors import code_of, make_app, make_recovery_codes
from tests.threads import at_once
from wms.accounts.models import User
from wms.accounts.services.second_factors import WrongCodeError, use_code

pytestmark = pytest.mark.django_db(transaction=True)


def is_accepted(user: User, code: str) -> bool:
    try:
        use_code(user, code, device="", now=timezone.now())
    except WrongCodeError:
        return False
    return True


@pytest.mark.parametrize("kind", ["app", "recovery"])
def test_a_code_used_several_times_at_once_is_accepted_once(kind: str) -> None:
    user = make_user(username="bob")
    secret = make_app(user)
    code = code_of(secret) if kind == "app" else make_recovery_codes(user)[0]
    assert sum(at_once([partial(is_accepted, user, code)] * 4)) == 1
